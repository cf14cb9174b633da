"""How the masked copies of texts are put into rows: each once, and a word in one."""

import numpy as np
import pytest
from bertscope_service.analyses.masked_rows import Scoring
from bertscope_service.analyses.pseudo_likelihood import ScoredInput, ScorePlan, ScoreQuery, TextScore

from tests.support.reference import Subject
from tests.support.runner import run_rows


def plan(subject: Subject, *texts: str, scoring: Scoring = Scoring.WITHIN_WORD) -> ScorePlan:
    inputs = tuple(ScoredInput(text, None, (), 0, None, f"inputs[{index}]") for index, text in enumerate(texts))
    return ScorePlan(ScoreQuery(inputs, scoring, truncate=False, max_row_tokens=10**6, pieces=True), subject.tokenizer)


def scores(subject: Subject, made: ScorePlan) -> list[TextScore]:
    rows = list(zip(made.masked.sequences, made.masked.observers, strict=True))
    return made.answer(run_rows(subject.encoder, rows, batch=5))  # type: ignore[arg-type]


def test_a_word_that_is_wholly_masked_takes_one_row(subject: Subject) -> None:
    text = "Unrecognizably mixed, the unplayable songs outsold the originals."
    made = plan(subject, text, scoring=Scoring.WHOLE_WORD)
    assert len(made.masked) == len(made.words[0]) < made.masked.pieces
    assert len(plan(subject, text).masked) == made.masked.pieces


def test_the_same_rows_run_once(subject: Subject) -> None:
    """The sentences of a minimal pair differ in one word, and have the row in common in which that word is masked."""
    pair = ["The dog saw the cat.", "The dog saw the dog."]
    alone = [len(plan(subject, one, scoring=Scoring.WHOLE_WORD).masked) for one in pair]
    together = plan(subject, *pair, scoring=Scoring.WHOLE_WORD)
    assert len(together.masked) == sum(alone) - 1
    shared = [observer for observer in together.masked.observers if observer.golds.shape[1] == 2]
    assert len(shared) == 1
    apart = [scores(subject, plan(subject, one, scoring=Scoring.WHOLE_WORD))[0].logs for one in pair]
    for score, expected in zip(scores(subject, together), apart, strict=True):
        assert score.logs == pytest.approx(expected, rel=1e-5, abs=1e-5)
    same = plan(subject, *pair[:1] * 3)
    assert len(same.masked) == len(plan(subject, pair[0]).masked)
    first, *others = scores(subject, same)
    assert all(np.array_equal(first.logs, other.logs) for other in others)
