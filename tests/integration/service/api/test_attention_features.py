"""ScoreFeatures through gRPC: the scores of the definitions, and what can't be scored is refused by its field."""

import grpc
import numpy as np
import pytest
from bertscope.v1 import attention_relations_pb2 as relations

from tests.support.calls import call
from tests.support.harness import Host, read_maps
from tests.support.sweeps import text_input
from tests.support.tiny import SENTENCES

INVALID = grpc.StatusCode.INVALID_ARGUMENT
TEXT = "The cat saw a dog."


def text(given: str, *spans: tuple[int, ...], pair: str | None = None) -> relations.FeatureText:
    """Spans are features with their starts, ends and segments."""
    marked = [
        {"feature": feature, "span": dict(zip(("start", "end", "segment"), place, strict=False))} for feature, *place in spans
    ]
    return relations.FeatureText(input=text_input(given, pair), spans=marked)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["models/bert", "models/roberta"])
def test_scores_are_those_of_the_maps_that_are_streamed(host: Host, model: str) -> None:
    """Long and short texts, in one call."""
    texts = [
        text(TEXT, (0, 4, 7)),
        text(SENTENCES[8], (1, 0, 4), (0, 5, 8), (0, 90, 100)),
        text(TEXT, (0, 0, 3, 1), (1, 0, 3), pair=SENTENCES[0]),
    ]
    asked = {"model": model, "texts": texts, "features": ["a", "b", "unseen"]}
    reply = call(host, "ScoreFeatures", **asked, special_tokens=True)
    maps = read_maps(call(host, "ExtractAttention", model=model, inputs=[one.input for one in texts]))
    first, *_, last = maps[0].header.tokens
    names = ["a", "b", "unseen", first.text, last.text]
    assert [feature.feature for feature in reply.features] == names
    assert (reply.layers, reply.heads, reply.texts) == (4, 4, 3)
    assert reply.provenance.model == model
    for number, found in enumerate(reply.features):
        means, rows = [], []
        for given, of_text in zip(texts, maps, strict=True):
            special = [place for place, token in enumerate(of_text.header.tokens) if token.special]
            places = [
                place
                for place, token in enumerate(of_text.header.tokens)
                for marked in given.spans
                if not token.special
                and marked.feature == number
                and marked.span.segment == token.segment
                and marked.span.start <= token.start < marked.span.end
            ]
            places = {3: special[:1], 4: special[1:]}.get(number, places)
            if places:
                means.append(of_text.values.mean(axis=2)[..., places].max(axis=-1).ravel())
                rows.append(of_text.values[:, :, 0, places].max(axis=-1).ravel())
        for sums, values in ((found.attention, means), (found.from_first_special, rows)):
            assert sums.texts == len(values)
            np.testing.assert_allclose(sums.sums, np.sum(values, axis=0) if values else [0] * 16, atol=2e-5)
            np.testing.assert_allclose(sums.squares, np.sum(np.square(values), axis=0) if values else [0] * 16, atol=2e-5)
    alone = call(host, "ScoreFeatures", **asked).features
    assert [feature.feature for feature in alone] == names[:3]
    for one, other in zip(alone, reply.features, strict=False):
        np.testing.assert_allclose(one.attention.sums, other.attention.sums, atol=1e-5)
    assert reply.features[0].attention.texts == 3
    assert reply.features[2].attention.texts == 0
