"""Fillings of masks against their definition in float64, candidates of several pieces, and how masked copies of texts are put
into rows."""

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
from bertscope_service.analyses.cloze import ClozePlan, ClozeQuery
from bertscope_service.analyses.decoding import Decoding
from bertscope_service.analyses.fillings import FilledMasks, FillingPlan, FillingQuery
from bertscope_service.analyses.masked_rows import Scoring
from bertscope_service.analyses.pseudo_likelihood import ScoredInput, ScorePlan, ScoreQuery, TextScore
from bertscope_service.encoders.edits import Edits
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.errors import InvalidArgument

from tests.support.decoding import Chosen, Definition
from tests.support.reference import Subject
from tests.support.runner import run_rows

FILLED = ("The singer [MASK] the song.", "[MASK] is a [MASK] 😀.")
TOP_K, WIDTH, MAX_PIECES = 4, 2, 2
TOLERANCE = 2e-4


def filling_plan(subject: Subject, *texts: str, **fields: Any) -> FillingPlan:
    usual = {"decoding": Decoding.BEAM, "top_k": TOP_K, "width": WIDTH, "max_pieces": MAX_PIECES, "truncate": False}
    return FillingPlan(FillingQuery(texts=texts, **(usual | fields)), subject.tokenizer)


def fill(plan: FillingPlan, subject: Subject, gates: Edits | None = None) -> list[list[FilledMasks]]:
    while plan.rows:
        plan.advance(run_rows(subject.encoder, plan.rows, gates))
    return plan.answer()


def widened(sequence: TokenSequence, masks: list[int], lengths: tuple[int, ...]) -> tuple[TokenSequence, list[list[int]]]:
    """The sequence with so many masks in place of each, and the positions of each one's."""
    ids: list[int] = []
    segments: list[int] = []
    places: list[list[int]] = []
    for position, (token, segment) in enumerate(zip(sequence.ids, sequence.segments, strict=True)):
        count = lengths[masks.index(position)] if position in masks else 1
        if position in masks:
            places.append(list(range(len(ids), len(ids) + count)))
        ids += [int(token)] * count
        segments += [int(segment)] * count
    return TokenSequence(ids, segments), places


@pytest.mark.slow
@pytest.mark.parametrize("decoding", [Decoding.LEFT_TO_RIGHT, Decoding.CONFIDENCE_FIRST, Decoding.BEAM])
def test_every_length_is_tried_and_the_best_means_come_first(subject: Subject, decoding: Decoding) -> None:
    definition = Definition(subject.folder)
    plan = filling_plan(subject, *FILLED, decoding=decoding)
    for text, masks, found in zip(plan.texts, plan.masks, fill(plan, subject), strict=True):
        expected = []
        for lengths in product(range(1, MAX_PIECES + 1), repeat=len(masks)):
            sequence, places = widened(text.sequence, list(masks), lengths)
            positions = [place for span in places for place in span]
            if decoding is Decoding.BEAM:
                sums = definition.beam(sequence, positions, TOP_K, WIDTH)
            else:
                sums = definition.greedy(sequence, positions, TOP_K, confident=decoding is Decoding.CONFIDENCE_FIRST)
            expected += [total / len(positions) for total in sums]
        assert [one.mean_log_probability for one in found] == pytest.approx(
            sorted(expected, reverse=True)[:TOP_K], abs=TOLERANCE
        )
        for one in found:
            check_scores(definition, text.sequence, list(masks), one)


def check_scores(definition: Definition, sequence: TokenSequence, masks: list[int], filled: FilledMasks) -> None:
    """A filling is as likely as it says, entry by entry in the order that it says."""
    row, places = widened(sequence, masks, tuple(len(span.ids) for span in filled.spans))
    entries = sorted(
        (step, place, token, log)
        for span, positions in zip(filled.spans, places, strict=True)
        for step, place, token, log in zip(span.steps, positions, span.ids, span.logs, strict=True)
    )
    assert [step for step, *_ in entries] == list(range(len(entries)))
    chosen: Chosen = tuple((place, token) for _, place, token, _ in entries)
    assert [log for *_, log in entries] == pytest.approx(definition.score(row, chosen), abs=TOLERANCE)
    assert filled.log_probability == pytest.approx(sum(log for *_, log in entries))
    assert filled.mean_log_probability == pytest.approx(filled.log_probability / len(entries))


def test_spans_are_written_as_words(subject: Subject) -> None:
    tokenizer = subject.tokenizer
    words = ("unplayable", "re-recorded", "Zürich", "cat")
    lowered = subject.architecture != "modernbert"
    for word in words:
        ids = tokenizer.backend.encode(word, add_special_tokens=False).ids
        written = tokenizer.written(ids).replace(" ", "")
        assert written == (tokenizer.backend.decode(ids).replace(" ", "") if lowered else word)
        assert tokenizer.written(ids[:1]) == tokenizer.word(ids[0])
    size = subject.encoder.shape.vocabulary_size
    assert all(tokenizer.written([token, size - 1]) for token in range(0, size, 7))


def test_what_is_cut_leaves_room_for_the_longest_filling(subject: Subject) -> None:
    text = "The [MASK] sat on the [MASK]." + " the" * 100
    plan = filling_plan(subject, text, truncate=True)
    assert max(len(sequence) for sequence, _ in plan.rows) <= subject.encoder.shape.max_tokens
    assert plan.texts[0].truncated
    assert len(fill(plan, subject)[0]) == TOP_K


@pytest.mark.parametrize("subject", ["bert"], indirect=True)
@pytest.mark.parametrize(
    ("text", "fields", "reason"),
    [
        ("no mask", {}, "NO_MASK"),
        ("[MASK]" + " the" * 100, {}, "TEXT_TOO_LONG"),
        ("the [MASK]" + " the" * 59, {"max_pieces": 10}, "TEXT_TOO_LONG"),
        ("[MASK]" * 30, {"max_pieces": 2, "width": 1}, "TOO_MANY_TOKENS"),
        ("[MASK] [MASK]", {"max_row_tokens": 40}, "TOO_MANY_TOKENS"),
        ("the [MASK]" * 6, {"top_k": 300, "max_pieces": 4, "width": 1, "max_row_tokens": 10**9}, "TOO_MANY_PREDICTIONS"),
    ],
)
def test_bad_queries_name_their_field(subject: Subject, text: str, fields: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        filling_plan(subject, text, **fields)
    assert caught.value.reason == reason


TEXTS = (
    "Paris is the [MASK] of France.",
    "[MASK] is a city.",
    "The [MASK] sat on the [MASK] in the [MASK], and the old man said that the dog walked.",
    "“[MASK]”",
)


def plan_of(subject: Subject, texts: Sequence[str], *, top_k: int = 0, candidates: Sequence[str] = ()) -> ClozePlan:
    return ClozePlan(ClozeQuery(tuple(texts), top_k, tuple(candidates), truncate=False), subject.tokenizer)


def refusal(subject: Subject, texts: Sequence[str], *, top_k: int = 5, candidates: Sequence[str] = ()) -> InvalidArgument:
    with pytest.raises(InvalidArgument) as caught:
        plan_of(subject, texts, top_k=0 if candidates else top_k, candidates=candidates)
    return caught.value


@pytest.mark.parametrize("subject", ["bert"], indirect=True)
def test_candidate_that_makes_the_text_too_long(subject: Subject) -> None:
    """A text that fits, but not with as many masks as the candidate has pieces."""
    words = 1
    while len(subject.tokenizer.encode("[MASK]" + " cat" * (words + 1))) <= 64:
        words += 1
    text = "[MASK]" + " cat" * words
    assert plan_of(subject, [text], candidates=["The"]).rows
    long = "unplayablesongsandunplayablesongs"
    error = refusal(subject, [TEXTS[0], text], candidates=["The", long])
    assert (error.field, error.reason) == ("texts[1]", "TEXT_TOO_LONG")


@pytest.mark.parametrize("subject", ["bert"], indirect=True)
def test_large_top_k_runs_apart(subject: Subject) -> None:
    """A row that wants thousands of predictions does not make its neighbours sort as many."""
    (_, few), (_, many) = (plan_of(subject, ["[MASK]"], top_k=k).rows[0] for k in (100, 101))
    assert few.group == plan_of(subject, ["[MASK]"], top_k=1).rows[0][1].group
    assert few.group != many.group


def score_plan(subject: Subject, *texts: str, scoring: Scoring = Scoring.WITHIN_WORD) -> ScorePlan:
    inputs = tuple(ScoredInput(text, None, (), 0, None, f"inputs[{index}]") for index, text in enumerate(texts))
    return ScorePlan(ScoreQuery(inputs, scoring, truncate=False, max_row_tokens=10**6, pieces=True), subject.tokenizer)


def scores(subject: Subject, made: ScorePlan) -> list[TextScore]:
    rows = list(zip(made.masked.sequences, made.masked.observers, strict=True))
    return made.answer(run_rows(subject.encoder, rows, batch=5))  # type: ignore[arg-type]


def test_a_word_that_is_wholly_masked_takes_one_row(subject: Subject) -> None:
    text = "Unrecognizably mixed, the unplayable songs outsold the originals."
    made = score_plan(subject, text, scoring=Scoring.WHOLE_WORD)
    assert len(made.masked) == len(made.words[0]) < made.masked.pieces
    assert len(score_plan(subject, text).masked) == made.masked.pieces


def test_the_same_rows_run_once(subject: Subject) -> None:
    """The sentences of a minimal pair differ in one word, and have the row in common in which that word is masked."""
    pair = ["The dog saw the cat.", "The dog saw the dog."]
    alone = [len(score_plan(subject, one, scoring=Scoring.WHOLE_WORD).masked) for one in pair]
    together = score_plan(subject, *pair, scoring=Scoring.WHOLE_WORD)
    assert len(together.masked) == sum(alone) - 1
    shared = [observer for observer in together.masked.observers if observer.golds.shape[1] == 2]
    assert len(shared) == 1
    apart = [scores(subject, score_plan(subject, one, scoring=Scoring.WHOLE_WORD))[0].logs for one in pair]
    for score, expected in zip(scores(subject, together), apart, strict=True):
        assert score.logs == pytest.approx(expected, rel=1e-5, abs=1e-5)
    same = score_plan(subject, *pair[:1] * 3)
    assert len(same.masked) == len(score_plan(subject, pair[0]).masked)
    first, *others = scores(subject, same)
    assert all(np.array_equal(first.logs, other.logs) for other in others)
