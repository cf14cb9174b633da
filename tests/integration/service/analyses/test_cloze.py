"""Candidates of several pieces against transformers, and logits by both runtimes."""

from collections.abc import Sequence
from typing import NamedTuple

import pytest
from bertscope_service.analyses.cloze import ClozePlan, ClozeQuery
from bertscope_service.analyses.observers.masks import MaskScores
from bertscope_service.encoders.base import Encoder
from bertscope_service.errors import InvalidArgument

from tests.support.reference import Subject
from tests.support.runner import run_rows

TEXTS = (
    "Paris is the [MASK] of France.",
    "[MASK] is a city.",
    "The [MASK] sat on the [MASK] in the [MASK], and the old man said that the dog walked.",
    "“[MASK]”",
)
CANDIDATES = ("cat", "unplayable", "the", "garden", "singer", "recorded", "a", "Zürich", "7:45")
"""Words of one piece and of several, under every tokenizer."""


def plan_of(subject: Subject, texts: Sequence[str], *, top_k: int = 0, candidates: Sequence[str] = ()) -> ClozePlan:
    return ClozePlan(ClozeQuery(tuple(texts), top_k, tuple(candidates), truncate=False), subject.tokenizer)


class Prediction(NamedTuple):
    token: str
    piece_ids: tuple[int, ...]
    log_probability: float
    candidate_probability: float | None
    rank: int | None


class FilledMask(NamedTuple):
    token_index: int
    start: int
    end: int
    predictions: list[Prediction]


class FilledText(NamedTuple):
    masks: list[FilledMask]
    tokens: int
    truncated: int


def answers(plan: ClozePlan, scores: list[MaskScores]) -> list[FilledText]:
    """What a plan answers, by text, mask and prediction in place of columns."""
    texts = []
    for tokenized, masks in zip(plan.texts, plan.answer(scores), strict=True):
        filled = []
        for mask in masks:
            shares = [None] * len(mask.words) if mask.shares is None else mask.shares
            ranks = [rank or None for rank in mask.ranks]
            columns = zip(mask.words, mask.logs, shares, ranks, strict=True)
            predictions = [Prediction(word.text, word.pieces, *scores) for word, *scores in columns]
            filled.append(FilledMask(mask.position, *mask.span, predictions))
        texts.append(FilledText(filled, len(tokenized), tokenized.truncated))
    return texts


def test_logits_are_the_models_own(subject: Subject, encoder: Encoder) -> None:
    """By both runtimes, for the likeliest entries and for candidates; there is none for words of several pieces."""
    words = CANDIDATES[:5]
    for top_k, candidates in ((7, ()), (0, words)):
        query = ClozeQuery(TEXTS, top_k, candidates, truncate=False, logits=True)
        plan = ClozePlan(query, subject.tokenizer)
        answers = plan.answer(run_rows(encoder, plan.rows))
        for tokenized, masks in zip(plan.texts, answers, strict=True):
            expected = subject.reference.alone(tokenized.sequence).logits[0]
            for mask in masks:
                assert mask.logits is not None
                for word, logit in zip(mask.words, mask.logits, strict=True):
                    assert (logit is None) == (len(word.pieces) > 1)
                    if logit is not None:
                        assert logit == pytest.approx(float(expected[mask.position, word.pieces[0]]), abs=2e-4)


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
