"""Candidates of several pieces against transformers, and logits by both runtimes."""

from collections.abc import Sequence

import pytest
from bertscope_service.analyses.cloze import ClozePlan, ClozeQuery
from bertscope_service.errors import InvalidArgument

from tests.support.reference import Subject

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
