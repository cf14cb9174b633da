"""Candidates of several pieces against transformers, and logits by both runtimes."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from bertscope_service.analyses.cloze import ClozePlan, ClozeQuery
from bertscope_service.analyses.observers.masks import MaskScores
from bertscope_service.encoders.edits import Edits
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.errors import InvalidArgument

from tests.support.exports import load_exported
from tests.support.limits import limit_sizes
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


def fill(
    subject: Subject, texts: Sequence[str], *, top_k: int = 0, candidates: Sequence[str] = (), gates: Edits | None = None
) -> list[FilledText]:
    plan = plan_of(subject, texts, top_k=top_k, candidates=candidates)
    return answers(plan, run_rows(subject.encoder, plan.rows, gates))


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


def expected_logs(subject: Subject, sequence: TokenSequence) -> torch.Tensor:
    """Logarithms of probabilities at every position: [length, vocabulary], as transformers' fill-mask has them."""
    return subject.reference.run([sequence]).logits[0].double().log_softmax(dim=-1)


def mask_places(subject: Subject, sequence: TokenSequence) -> list[int]:
    return [place for place, token in enumerate(sequence.ids) if token == subject.tokenizer.mask_id]


def test_logits_are_the_models_own(subject: Subject, export_cache: Path) -> None:
    """By both runtimes, for the likeliest entries and for candidates; there is none for words of several pieces."""
    words = CANDIDATES[:5]
    for encoder in (subject.encoder, load_exported(subject.folder, export_cache)):
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


@pytest.mark.two_architectures
def test_candidates_are_scored_with_as_many_masks_as_pieces(subject: Subject) -> None:
    """Each against a run of transformers alone: k masks in place of the one, the product over their positions."""
    lengths: set[int] = set()
    for text, answer in zip(TEXTS, fill(subject, TEXTS, candidates=CANDIDATES), strict=True):
        sequence = subject.tokenizer.encode(text).sequence
        for place, mask in zip(mask_places(subject, sequence), answer.masks, strict=True):
            assert sorted(prediction.token for prediction in mask.predictions) == sorted(CANDIDATES)
            for prediction in mask.predictions:
                pieces = prediction.piece_ids
                lengths.add(len(pieces))
                ids, segments = list(sequence.ids), list(sequence.segments)
                ids[place : place + 1] = [ids[place]] * len(pieces)
                segments[place : place + 1] = [segments[place]] * len(pieces)
                logs = expected_logs(subject, TokenSequence(ids, segments))
                expected = sum(float(logs[place + offset, piece]) for offset, piece in enumerate(pieces))
                assert prediction.log_probability == pytest.approx(expected, abs=1e-3 * len(pieces))
                likelier = int((logs[place] > logs[place, pieces[0]] + 1e-4).sum())
                ties = int(((logs[place] - logs[place, pieces[0]]).abs() <= 1e-4).sum())
                if len(pieces) > 1:
                    assert prediction.rank is None
                else:
                    assert prediction.rank is not None
                    assert likelier < prediction.rank <= likelier + ties
    assert 1 in lengths
    assert len(lengths) > 2


@pytest.mark.parametrize("subject", ["bert"], indirect=True)
def test_few_logits_at_a_time_are_the_same(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = fill(subject, TEXTS, candidates=CANDIDATES), fill(subject, TEXTS, top_k=3)
    limit_sizes(monkeypatch, logits_bytes=1)
    parts = fill(subject, TEXTS, candidates=CANDIDATES), fill(subject, TEXTS, top_k=3)
    for one, other in zip(whole[0] + whole[1], parts[0] + parts[1], strict=True):
        for mask, again in zip(one.masks, other.masks, strict=True):
            assert [p.token for p in mask.predictions] == [p.token for p in again.predictions]
            assert [p.log_probability for p in mask.predictions] == pytest.approx(
                [p.log_probability for p in again.predictions], abs=1e-4
            )


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
