"""Scores of texts against a loop over masked copies of each text in plain transformers, for every architecture."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from bertscope_service.analyses.masked_rows import Scoring
from bertscope_service.analyses.pseudo_likelihood import ScoredInput, ScorePlan, ScoreQuery, TextScore
from bertscope_service.analyses.words import Span
from bertscope_service.encoders.edits import Edits

from tests.support.reference import Subject
from tests.support.runner import run_rows


def given(text: str, pair: str | None = None, *spans: Span, skip: int = 0, most: int | None = None) -> ScoredInput:
    return ScoredInput(text, pair, spans, skip, most, "inputs[0]")


def plan(
    subject: Subject,
    inputs: Sequence[ScoredInput],
    scoring: Scoring = Scoring.WITHIN_WORD,
    *,
    truncate: bool = False,
    most: int = 10**6,
) -> ScorePlan:
    named = tuple(replace(one, field=f"inputs[{index}]") for index, one in enumerate(inputs))
    return ScorePlan(ScoreQuery(named, scoring, truncate, most, pieces=True), subject.tokenizer)


def rows_of(made: ScorePlan) -> list[tuple[object, object]]:
    return list(zip(made.masked.sequences, made.masked.observers, strict=True))


def scores(subject: Subject, made: ScorePlan, gates: Edits | None = None, *, batch: int = 5) -> list[TextScore]:
    return made.answer(run_rows(subject.encoder, rows_of(made), gates, batch=batch))  # type: ignore[arg-type]


def test_a_word_that_is_wholly_masked_takes_one_row(subject: Subject) -> None:
    entry = given("Unrecognizably mixed, the unplayable songs outsold the originals.")
    made = plan(subject, [entry], Scoring.WHOLE_WORD)
    assert len(made.masked) == len(made.words[0]) < made.masked.pieces
    assert len(plan(subject, [entry]).masked) == made.masked.pieces


def test_the_same_rows_run_once(subject: Subject) -> None:
    """The sentences of a minimal pair differ in one word, and have the row in common in which that word is masked."""
    pair = [given("The dog saw the cat."), given("The dog saw the dog.")]
    alone = [len(plan(subject, [one], Scoring.WHOLE_WORD).masked) for one in pair]
    together = plan(subject, pair, Scoring.WHOLE_WORD)
    assert len(together.masked) == sum(alone) - 1
    shared = [observer for observer in together.masked.observers if observer.golds.shape[1] == 2]
    assert len(shared) == 1
    apart = [scores(subject, plan(subject, [one], Scoring.WHOLE_WORD))[0].logs for one in pair]
    for score, expected in zip(scores(subject, together), apart, strict=True):
        assert score.logs == pytest.approx(expected, rel=1e-5, abs=1e-5)
    same = plan(subject, [pair[0]] * 3)
    assert len(same.masked) == len(plan(subject, pair[:1]).masked)
    first, *others = scores(subject, same)
    assert all(np.array_equal(first.logs, other.logs) for other in others)
