"""ScoreRelations and ScoreFeatures through gRPC: the scores of the definitions."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import torch
from bertscope.v1 import attention_relations_pb2 as relations
from bertscope.v1 import common_pb2 as common
from bertscope_service.checkpoints.tokenizer import TextTokenizer

from tests.support.calls import call
from tests.support.harness import Host, read_maps
from tests.support.limits import limit_sizes
from tests.support.reference import EDITS, Reference
from tests.support.relations import LINKED, Linked, Scores, added, expected_scores
from tests.support.sweeps import ZERO, text_input
from tests.support.tiny import SENTENCES

NAMES = ("nsubj", "obj", "det", "unseen")
Span, Pair = common.CharacterSpan, relations.WordPair


def text_of(text: Linked) -> relations.RelationText:
    return relations.RelationText(
        input=text_input(*text.texts),
        words=[Span(start=start, end=end, segment=segment) for start, end, segment in text.words],
        pairs=[Pair(relation=relation, source=source, target=target) for relation, source, target in text.pairs],
    )


def score(host: Host, texts: Sequence[Linked], **fields: Any) -> Any:
    return call(host, "ScoreRelations", texts=map(text_of, texts), relations=NAMES, **fields)


@pytest.mark.parametrize("edited", [False, True])
def test_scores_are_those_of_the_definitions(
    host: Host, model: str, checkpoints: dict[str, Path], monkeypatch: pytest.MonkeyPatch, edited: bool
) -> None:
    """Also under interventions, there with rows that are reduced in parts."""
    if edited:
        limit_sizes(monkeypatch, map_bytes=1)
    tokenizer, reference = TextTokenizer.load(checkpoints[model], 64), Reference(checkpoints[model], torch.float64)
    changes = [common.HeadIntervention(layer=1, heads=[2], mode=ZERO)] if edited else []
    reply = score(host, LINKED, model=f"models/{model}", interventions=changes)
    texts = []
    for text in LINKED:
        marks = [(segment, start, end) for start, end, segment in text.words]
        [tokenized] = tokenizer.encode_all([text.texts], words=[marks])
        sequence = tokenized.sequence
        outputs = reference.run_edited(sequence, EDITS["zero"]) if edited else reference.run([sequence])
        maps = torch.cat(outputs.maps).flatten(0, 1).double().numpy()
        texts.append(expected_scores(maps, tokenized.pieces(tokenizer), text, len(NAMES)))
    assert (reply.layers, reply.heads, reply.texts) == (4, 4, len(LINKED))
    assert reply.provenance.model == f"models/{model}"
    assert [relation.relation for relation in reply.relations] == list(NAMES)
    assert not reply.details
    for number, found in enumerate(reply.relations):
        expected = added([text[number] for text in texts])
        assert (found.pairs, found.skipped_pairs, found.chance_pairs) == (
            expected.pairs,
            expected.skipped,
            expected.chance_pairs,
        )
        assert {entry.offset: entry.pairs for entry in found.offsets} == expected.offsets
        distances = [abs(entry.offset) for entry in found.offsets]
        assert distances == sorted(distances)
        check_direction(found.forward, expected.forward)
        check_direction(found.backward, expected.backward)


def check_direction(found: relations.DirectedScores, expected: Scores) -> None:
    for sums, values in (
        (found.largest_weight, expected.largest),
        (found.largest_weight_by_chance, expected.largest_by_chance),
    ):
        assert sums.texts == len(values)
        assert len(sums.sums) == len(sums.squares) == 16
        if values:
            np.testing.assert_allclose(np.array(sums.sums) / len(values), np.mean(values, axis=0), rtol=0, atol=1e-5)
            np.testing.assert_allclose(np.array(sums.squares) / len(values), np.mean(np.square(values), axis=0), atol=1e-5)
    assert len(found.correct) == len(found.correct_by_chance) == 16
    assert (np.abs(np.array(found.correct, dtype=np.int64) - expected.correct) <= expected.unsure).all()
    difference = np.abs(np.array(found.correct_by_chance) - expected.by_chance)
    assert (difference <= 1e-9 + np.asarray(expected.unsure_by_chance)).all()


def test_details_are_those_of_each_text(host: Host) -> None:
    whole = score(host, LINKED, details=True)
    assert {detail.text_index for detail in whole.details} == set(range(len(LINKED)))
    for index in (0, 5, len(LINKED) - 1):
        alone = score(host, LINKED[index : index + 1])
        for detail in whole.details:
            if detail.text_index == index:
                one = alone.relations[detail.relation]
                assert list(detail.offsets) == sorted(
                    offset for entry in one.offsets for offset in [entry.offset] * int(entry.pairs)
                )
                assert list(detail.forward_correct) == list(one.forward.correct)
                assert list(detail.backward_correct) == list(one.backward.correct)


def test_all_pairs_may_be_skipped(host: Host) -> None:
    """Nothing is scored, and nothing is wrong."""
    reply = score(host, [Linked(("the cat sat",), [(1, 2, 0), (5, 6, 0), (9, 10, 0)], [(1, 0, 1), (1, 1, 2)])])
    (found,) = [relation for relation in reply.relations if relation.skipped_pairs]
    assert (found.relation, found.pairs, found.skipped_pairs) == ("obj", 0, 2)
    assert found.forward.largest_weight.texts == 0
    assert set(found.forward.largest_weight.sums) == {0.0}


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
