"""ScoreRelations through gRPC: the scores of the definitions, and what can't be scored is refused by its field."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import torch
from bertscope.v1 import attention_relations_pb2 as relations
from bertscope.v1 import common_pb2 as common
from bertscope_service.checkpoints.tokenizer import TextTokenizer

from tests.support.harness import CALL_SECONDS, Host, refused
from tests.support.reference import EDITS, Reference
from tests.support.relations import LINKED, Linked, Scores, added, expected_scores
from tests.support.sweeps import UNIFORM, ZERO, text_input

INVALID = grpc.StatusCode.INVALID_ARGUMENT
NAMES = ("nsubj", "obj", "det", "unseen")
Span, Pair = common.CharacterSpan, relations.WordPair


@pytest.fixture(scope="module", autouse=True)
def next_request_is_answered(host: Host, check_alive: Callable[[Host], None]) -> Iterator[None]:
    yield
    check_alive(host)


def text_of(text: Linked) -> relations.RelationText:
    return relations.RelationText(
        input=text_input(*text.texts),
        words=[Span(start=start, end=end, segment=segment) for start, end, segment in text.words],
        pairs=[Pair(relation=relation, source=source, target=target) for relation, source, target in text.pairs],
    )


def score(host: Host, texts: Sequence[Linked], **fields: Any) -> relations.ScoreRelationsResponse:
    request = relations.ScoreRelationsRequest(texts=map(text_of, texts), **{"relations": NAMES, **fields})
    return host.attention.ScoreRelations(request, timeout=CALL_SECONDS)


@pytest.fixture(scope="module", params=["bert", "roberta"])
def model(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("edited", [False, True])
def test_scores_are_those_of_the_definitions(host: Host, model: str, checkpoints: dict[str, Path], edited: bool) -> None:
    tokenizer, reference = TextTokenizer.load(checkpoints[model], 64), Reference(checkpoints[model], torch.float64)
    changes = [common.HeadIntervention(layer=1, heads=[2], mode=ZERO)] if edited else []
    reply = score(host, LINKED, model=f"models/{model}", interventions=changes)
    texts = []
    for text in LINKED:
        tokenized = tokenizer.encode(*text.texts)
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
    reply = score(host, [Linked(("the",), [(0, 1, 0), (1, 2, 0), (2, 3, 0)], [(1, 0, 1), (1, 1, 2)])])
    (found,) = [relation for relation in reply.relations if relation.skipped_pairs]
    assert (found.relation, found.pairs, found.skipped_pairs) == ("obj", 0, 2)
    assert found.forward.largest_weight.texts == 0
    assert set(found.forward.largest_weight.sums) == {0.0}


TEXT = "The cat saw a dog."
WORDS = [(0, 3), (4, 7), (8, 11), (12, 13), (14, 17)]


def entry(
    text: str = TEXT,
    words: Sequence[tuple[int, ...]] = WORDS,
    pairs: Sequence[tuple[int, int, int]] = ((0, 2, 1),),
    pair: str | None = None,
) -> relations.RelationText:
    return relations.RelationText(
        input=text_input(text, pair),
        words=[Span(start=word[0], end=word[1], segment=word[2] if len(word) > 2 else 0) for word in words],
        pairs=[Pair(relation=relation, source=source, target=target) for relation, source, target in pairs],
    )


GOOD = entry()
BAD: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "no text": ("texts", "NO_TEXT", "give at least one text", {"texts": []}),
    "too many texts": ("texts", "TOO_MANY_TEXTS", "in parts", {"texts": [GOOD] * 257}),
    "empty text": ("texts[1].input.text", "EMPTY_TEXT", "write some text", {"texts": [GOOD, entry("", [], [])]}),
    "no token": ("texts[1].input.text", "EMPTY_TEXT", "write some text", {"texts": [GOOD, entry("\u200b\u0301", [], [])]}),
    "too long": ("texts[1].input", "TEXT_TOO_LONG", "shorten it", {"texts": [GOOD, entry("cat " * 70)]}),
    "long name": ("relations[0]", "NAME_TOO_LARGE", "may have 1000", {"relations": ["x" * 1001]}),
    "no relation": ("relations", "EMPTY_NAME", "name at least one", {"relations": []}),
    "empty relation": ("relations[1]", "EMPTY_NAME", "name it", {"relations": ["a", ""]}),
    "blank relation": ("relations[1]", "EMPTY_NAME", "name it", {"relations": ["a", " \t"]}),
    "relation twice": ("relations[2]", "DUPLICATE", "once", {"relations": ["a", "b", "a"]}),
    "10,000 relations": ("relations", "TOO_MANY_NAMES", "may have 1000", {"relations": [str(n) for n in range(10_000)]}),
    "no pair": ("texts", "NO_PAIR", "give at least one pair", {"texts": [entry(pairs=[])] * 2}),
    "no word": ("texts[0].pairs[0].source", "WORD_OUT_OF_RANGE", "has 0 words", {"texts": [entry(words=[])]}),
    "span outside": (
        "texts[0].words[1].end",
        "SPAN_OUT_OF_RANGE",
        "18 code points",
        {"texts": [entry(words=[(0, 3), (4, 19)])]},
    ),
    "largest span": (
        "texts[0].words[0].end",
        "SPAN_OUT_OF_RANGE",
        "18 code points",
        {"texts": [entry(words=[(0, 2**32 - 1)])]},
    ),
    "empty span": ("texts[0].words[1]", "EMPTY_SPAN", "one past", {"texts": [entry(words=[(0, 3), (4, 4)])]}),
    "span backwards": ("texts[0].words[1]", "EMPTY_SPAN", "one past", {"texts": [entry(words=[(0, 3), (9, 4)])]}),
    "no second text": (
        "texts[0].words[5].segment",
        "SEGMENT_OUT_OF_RANGE",
        "has one text",
        {"texts": [entry(words=[*WORDS, (0, 3, 1)])]},
    ),
    "no third text": (
        "texts[0].words[5].segment",
        "SEGMENT_OUT_OF_RANGE",
        "has two texts",
        {"texts": [entry(words=[*WORDS, (0, 3, 2)], pair=TEXT)]},
    ),
    "overlap": ("texts[0].words[2]", "WORDS_OVERLAP", "overlap", {"texts": [entry(words=[(0, 3), (4, 11), (8, 13)])]}),
    "word twice": ("texts[0].words[1]", "WORDS_OVERLAP", "overlap", {"texts": [entry(words=[(0, 3), (0, 3)])]}),
    "not ascending": ("texts[0].words[1]", "WORDS_NOT_ASCENDING", "sort", {"texts": [entry(words=[(4, 7), (0, 3), (8, 11)])]}),
    "second text first": (
        "texts[0].words[1]",
        "WORDS_NOT_ASCENDING",
        "sort",
        {"texts": [entry(words=[(4, 7, 1), (0, 3)], pair=TEXT)]},
    ),
    "relation index": (
        "texts[1].pairs[2].relation",
        "RELATION_OUT_OF_RANGE",
        "has 4 entries",
        {"texts": [GOOD, entry(pairs=[(0, 1, 2), (1, 1, 2), (4, 1, 2)])]},
    ),
    "source": ("texts[0].pairs[0].source", "WORD_OUT_OF_RANGE", "has 5 words", {"texts": [entry(pairs=[(0, 5, 1)])]}),
    "target": ("texts[0].pairs[0].target", "WORD_OUT_OF_RANGE", "has 5 words", {"texts": [entry(pairs=[(0, 1, 2**32 - 1)])]}),
    "itself": ("texts[0].pairs[1].target", "SAME_WORD", "two different", {"texts": [entry(pairs=[(0, 1, 2), (0, 3, 3)])]}),
    "across": (
        "texts[0].pairs[0].target",
        "PAIR_ACROSS_TEXTS",
        "of one text",
        {"texts": [entry(words=[(0, 3), (0, 3, 1)], pairs=[(0, 0, 1)], pair=TEXT)]},
    ),
    "pair twice": ("texts[0].pairs[1]", "DUPLICATE", "once", {"texts": [entry(pairs=[(0, 1, 2), (0, 1, 2)])]}),
    "too many words": (
        "texts[0].words",
        "TOO_MANY_WORDS",
        "may have 1000",
        {"texts": [entry("x" * 1001, [(at, at + 1) for at in range(1001)])]},
    ),
    "too many pairs": ("texts[0].pairs", "TOO_MANY_PAIRS", "may have 10000", {"texts": [entry(pairs=[(0, 1, 2)] * 10_001)]}),
    "no layer": (
        "interventions[0].layer",
        "LAYER_OUT_OF_RANGE",
        "layers 0 to 3",
        {"interventions": [common.HeadIntervention(layer=4, mode=UNIFORM)]},
    ),
}


@pytest.mark.parametrize(("field", "reason", "words", "fields"), BAD.values(), ids=BAD)
def test_bad_requests(host: Host, field: str, reason: str, words: str, fields: dict[str, Any]) -> None:
    request = relations.ScoreRelationsRequest(**{"texts": [GOOD], "relations": NAMES, **fields})
    with refused(INVALID) as failures:
        host.attention.ScoreRelations(request, timeout=CALL_SECONDS)
    assert failures[0].fields == [field]
    assert failures[0].info.reason == reason
    assert words in failures[0].message
