"""ScoreFeatures through gRPC: the scores of the definitions, and what can't be scored is refused by its field."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import grpc
import numpy as np
import pytest
from bertscope.v1 import attention_pb2 as attention
from bertscope.v1 import attention_relations_pb2 as relations
from bertscope.v1 import common_pb2

from tests.support.harness import CALL_SECONDS, Host, read_maps, refused
from tests.support.sweeps import text_input
from tests.support.tiny import SENTENCES

INVALID = grpc.StatusCode.INVALID_ARGUMENT
TEXT = "The cat saw a dog."


@pytest.fixture(scope="module", autouse=True)
def next_request_is_answered(host: Host, check_alive: Callable[[Host], None]) -> Iterator[None]:
    yield
    check_alive(host)


def text(given: str = TEXT, spans: Sequence[tuple[int, ...]] = ((0, 4, 7),), pair: str | None = None) -> relations.FeatureText:
    marked = [
        relations.MarkedSpan(
            feature=span[0],
            span=common_pb2.CharacterSpan(start=span[1], end=span[2], segment=span[3] if len(span) > 3 else 0),
        )
        for span in spans
    ]
    return relations.FeatureText(input=text_input(given, pair), spans=marked)


@pytest.mark.parametrize("model", ["models/bert", "models/roberta"])
def test_scores_are_those_of_the_maps_that_are_streamed(host: Host, model: str) -> None:
    """Long and short texts, in one call."""
    texts = [
        text(),
        text(SENTENCES[8], [(1, 0, 4), (0, 5, 8), (0, 90, 100)]),
        text(TEXT, [(0, 0, 3, 1), (1, 0, 3)], SENTENCES[0]),
    ]
    request = relations.ScoreFeaturesRequest(model=model, texts=texts, features=["a", "b", "unseen"], special_tokens=True)
    reply = host.attention.ScoreFeatures(request, timeout=CALL_SECONDS)
    extract = attention.ExtractAttentionRequest(model=model, inputs=[one.input for one in texts])
    maps = read_maps(host.attention.ExtractAttention(extract, timeout=CALL_SECONDS))
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
    assert reply.features[0].attention.texts == 3
    assert reply.features[2].attention.texts == 0


BAD: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "no text": ("texts", "NO_TEXT", "give at least one text", {"texts": []}),
    "too many texts": ("texts", "TOO_MANY_TEXTS", "in parts", {"texts": [text()] * 257}),
    "empty text": ("texts[1].input.text", "EMPTY_TEXT", "write some text", {"texts": [text(), text("", [])]}),
    "empty pair": ("texts[0].input.text_pair", "EMPTY_TEXT", "write some text", {"texts": [text(pair="")]}),
    "too long": ("texts[1].input", "TEXT_TOO_LONG", "shorten it", {"texts": [text(), text("cat " * 70, [])]}),
    "no feature": ("features", "EMPTY_NAME", "name at least one", {"features": []}),
    "empty feature": ("features[1]", "EMPTY_NAME", "name it", {"features": ["a", ""]}),
    "feature twice": ("features[1]", "DUPLICATE", "once", {"features": ["a", "a"]}),
    "named like a special token": (
        "features[1]",
        "DUPLICATE",
        "special_tokens",
        {"features": ["a", "[SEP]"], "special_tokens": True},
    ),
    "too many features": ("features", "TOO_MANY_NAMES", "may have 1000", {"features": [str(n) for n in range(1001)]}),
    "no span": ("texts", "NO_SPAN", "set special_tokens", {"texts": [text(spans=[])] * 2}),
    "feature index": (
        "texts[1].spans[1].feature",
        "FEATURE_OUT_OF_RANGE",
        "has 2 entries",
        {"texts": [text(), text(spans=[(1, 0, 3), (2, 0, 3)])]},
    ),
    "outside": ("texts[0].spans[0].span.end", "SPAN_OUT_OF_RANGE", "18 code points", {"texts": [text(spans=[(0, 4, 19)])]}),
    "empty span": ("texts[0].spans[0].span", "EMPTY_SPAN", "one past", {"texts": [text(spans=[(0, 4, 4)])]}),
    "no second text": (
        "texts[0].spans[0].span.segment",
        "SEGMENT_OUT_OF_RANGE",
        "has one text",
        {"texts": [text(spans=[(0, 0, 3, 1)])]},
    ),
    "too many spans": ("texts[0].spans", "TOO_MANY_SPANS", "may have 10000", {"texts": [text(spans=[(0, 0, 3)] * 10_001)]}),
}


@pytest.mark.parametrize(("field", "reason", "words", "fields"), BAD.values(), ids=BAD)
def test_bad_requests(host: Host, field: str, reason: str, words: str, fields: dict[str, Any]) -> None:
    request = relations.ScoreFeaturesRequest(**{"texts": [text()], "features": ["a", "b"], **fields})
    with refused(INVALID) as failures:
        host.attention.ScoreFeatures(request, timeout=CALL_SECONDS)
    assert failures[0].fields == [field]
    assert failures[0].info.reason == reason
    assert words in failures[0].message
