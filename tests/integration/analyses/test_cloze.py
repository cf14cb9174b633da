"""Cloze answers against transformers' eager logits, for every architecture."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch
from bertscope_service.analyses import cloze
from bertscope_service.analyses.cloze import ClozePlan, ClozeQuery
from bertscope_service.analyses.observers.masks import MaskScores
from bertscope_service.encoders.edits import Edits
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.errors import FailedPrecondition, InvalidArgument

from tests.support.exports import load_exported
from tests.support.limits import limit_sizes
from tests.support.reference import Subject
from tests.support.runner import run_rows
from tests.support.subjects import on_three

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


@pytest.mark.two_architectures
@pytest.mark.parametrize("top_k", [1, 7, 150])
def test_top_k_is_transformers_own(subject: Subject, top_k: int) -> None:
    """Several masks are independent: each is predicted with the others in place."""
    for text, answer in zip(TEXTS, fill(subject, TEXTS, top_k=top_k), strict=True):
        tokenized = subject.tokenizer.encode(text)
        logs, places = expected_logs(subject, tokenized.sequence), mask_places(subject, tokenized.sequence)
        assert [mask.token_index for mask in answer.masks] == places
        assert (answer.tokens, answer.truncated) == (len(tokenized), 0)
        for mask in answer.masks:
            assert text[mask.start : mask.end] == "[MASK]"
            found = [prediction.log_probability for prediction in mask.predictions]
            assert found == sorted(found, reverse=True)
            assert [prediction.rank for prediction in mask.predictions] == list(range(1, top_k + 1))
            best = logs[mask.token_index].topk(top_k)
            assert found == pytest.approx(best.values.tolist(), abs=1e-3)
            for prediction in mask.predictions:
                (piece,) = prediction.piece_ids
                assert prediction.log_probability == pytest.approx(float(logs[mask.token_index, piece]), abs=1e-3)
                assert prediction.token == subject.tokenizer.word(piece)
                assert prediction.candidate_probability is None


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


@on_three
def test_whole_vocabulary_sums_to_one(subject: Subject) -> None:
    size = subject.encoder.shape.vocabulary_size
    ((mask,),) = (answer.masks for answer in fill(subject, TEXTS[:1], top_k=size))
    assert sum(math.exp(prediction.log_probability) for prediction in mask.predictions) == pytest.approx(1, abs=1e-4)
    assert {prediction.piece_ids[0] for prediction in mask.predictions} == set(range(size))


@pytest.mark.two_architectures
@on_three
def test_masks_are_where_the_text_has_them(subject: Subject) -> None:
    text = TEXTS[2]
    (answer,) = fill(subject, [text], top_k=1)
    starts = [place for place in range(len(text)) if text.startswith("[MASK]", place)]
    assert [(mask.start, mask.end) for mask in answer.masks] == [(start, start + 6) for start in starts]


@pytest.mark.two_architectures
@on_three
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


@on_three
def test_shares_are_among_the_candidates(subject: Subject) -> None:
    for answer in fill(subject, TEXTS, candidates=CANDIDATES):
        for mask in answer.masks:
            shares = [prediction.candidate_probability or 0.0 for prediction in mask.predictions]
            logs = [prediction.log_probability for prediction in mask.predictions]
            assert logs == sorted(logs, reverse=True)
            assert sum(shares) == pytest.approx(1)
            assert shares == pytest.approx(torch.tensor(logs, dtype=torch.float64).softmax(dim=0).tolist(), rel=1e-6)


@on_three
def test_one_candidate_has_the_whole_share(subject: Subject) -> None:
    ((mask,),) = (answer.masks for answer in fill(subject, TEXTS[:1], candidates=["unplayable"]))
    assert [prediction.candidate_probability for prediction in mask.predictions] == [pytest.approx(1)]


@on_three
def test_the_same_candidate_twice_is_answered_twice(subject: Subject) -> None:
    ((mask,),) = (answer.masks for answer in fill(subject, TEXTS[:1], candidates=["cat", "garden", "cat"]))
    assert sorted(prediction.token for prediction in mask.predictions) == ["cat", "cat", "garden"]
    both = [prediction for prediction in mask.predictions if prediction.token == "cat"]
    assert both[0].log_probability == both[1].log_probability
    assert both[0].rank == both[1].rank


@on_three
def test_candidates_and_top_k_agree(subject: Subject) -> None:
    """The likeliest piece, asked for as a candidate, has the same probability and rank 1."""
    ((mask,),) = (answer.masks for answer in fill(subject, TEXTS[:1], top_k=40))
    context = TEXTS[0][: mask.start][-1:]
    for prediction in mask.predictions:
        if subject.tokenizer.pieces_in_context(prediction.token, context) == prediction.piece_ids:
            break
    else:
        pytest.fail("none of the likeliest pieces can be asked for")
    ((asked,),) = (answer.masks for answer in fill(subject, TEXTS[:1], candidates=[prediction.token]))
    (found,) = asked.predictions
    assert found.rank == prediction.rank
    assert found.log_probability == pytest.approx(prediction.log_probability, abs=1e-5)


@on_three
def test_gates_change_every_row_of_a_query(subject: Subject) -> None:
    edits = {(0, 1): (0.0, 1.0), (2, 2): (0.0, 0.0), (2, 0): (0.0, 0.0)}
    (answer,) = fill(subject, TEXTS[:1], top_k=3, gates=subject.gates(edits))
    sequence = subject.tokenizer.encode(TEXTS[0]).sequence
    (mask,) = answer.masks
    logs = subject.reference.run_edited(sequence, edits).logits[0, mask.token_index].log_softmax(dim=-1)
    assert [prediction.log_probability for prediction in mask.predictions] == pytest.approx(
        logs.topk(3).values.tolist(), abs=1e-3
    )


@on_three
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


@on_three
def test_text_without_a_mask(subject: Subject) -> None:
    error = refusal(subject, [TEXTS[0], "The cat sat."])
    assert (error.field, error.reason) == ("texts[1]", "NO_MASK")
    assert str(subject.tokenizer.mask_token) in error.message


@on_three
def test_text_that_is_too_long(subject: Subject) -> None:
    error = refusal(subject, [TEXTS[0], "[MASK] " + "cat " * 100])
    assert (error.field, error.reason) == ("texts[1]", "TEXT_TOO_LONG")
    assert error.metadata["max_tokens"] == "64"
    assert int(error.metadata["tokens"]) > 64


@on_three
def test_truncation_keeps_the_mask_or_says_so(subject: Subject) -> None:
    query = ClozeQuery(("[MASK] " + "cat " * 100,), 1, (), truncate=True)
    plan = ClozePlan(query, subject.tokenizer)
    scores: list[MaskScores] = run_rows(subject.encoder, plan.rows)
    (answer,) = answers(plan, scores)
    assert answer.tokens == 64
    assert answer.truncated == len(subject.tokenizer.encode(query.texts[0])) - 64
    with pytest.raises(InvalidArgument) as caught:
        ClozePlan(ClozeQuery(("cat " * 100 + "[MASK]",), 1, (), truncate=True), subject.tokenizer)
    assert (caught.value.field, caught.value.reason) == ("texts[0]", "MASK_TRUNCATED")


@on_three
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


@on_three
def test_candidate_that_the_vocabulary_cannot_write(subject: Subject) -> None:
    # Byte-level vocabularies write everything: to them only a word that is none can't be written.
    word = "" if subject.architecture in {"roberta", "modernbert"} else "ქართული"
    error = refusal(subject, TEXTS[:1], candidates=["cat", word])
    assert (error.field, error.reason) == ("candidates[1]", "CANDIDATE_UNTOKENIZABLE")
    assert error.metadata == {}  # a text has no place in an error


@on_three
def test_too_many_predictions(subject: Subject) -> None:
    """Counted over all masks of all texts, before anything runs."""
    fits = plan_of(subject, ["[MASK]", "[MASK] [MASK]"], top_k=cloze.MAX_PREDICTIONS // 3)
    assert fits.predictions == cloze.MAX_PREDICTIONS // 3 * 3
    error = refusal(subject, ["[MASK]", "[MASK] [MASK]"], top_k=cloze.MAX_PREDICTIONS // 3 + 1)
    assert (error.field, error.reason) == ("top_k", "TOO_MANY_PREDICTIONS")


@on_three
def test_large_top_k_runs_apart(subject: Subject) -> None:
    """A row that wants thousands of predictions does not make its neighbours sort as many."""
    (_, few), (_, many) = (plan_of(subject, ["[MASK]"], top_k=k).rows[0] for k in (100, 101))
    assert few.group == plan_of(subject, ["[MASK]"], top_k=1).rows[0][1].group
    assert few.group != many.group


@on_three
def test_a_text_that_is_cut_leaves_room_for_the_longest_candidate(subject: Subject) -> None:
    text = "[MASK] " + "cat " * 200
    plan = ClozePlan(ClozeQuery((text,), 0, ("cat", "unplayable"), truncate=True), subject.tokenizer)
    (answer,) = answers(plan, run_rows(subject.encoder, plan.rows))
    longest = max(len(prediction.piece_ids) for prediction in answer.masks[0].predictions)
    assert longest > 1
    assert answer.tokens == subject.tokenizer.max_tokens - (longest - 1)
    assert answer.truncated > 0


@on_three
def test_scores_that_are_not_finite_are_refused(subject: Subject) -> None:
    plan = plan_of(subject, TEXTS[:1], top_k=2)
    count = sum(len(observer.positions) for _, observer in plan.rows)
    empty = np.zeros((count, 0))
    broken = MaskScores(
        np.zeros((count, 2), dtype=np.int64), np.full((count, 2), np.nan, dtype=np.float32), empty, empty.astype(np.int64)
    )
    with pytest.raises(FailedPrecondition) as caught:
        plan.answer([broken])
    assert caught.value.reason == "SCORES_NOT_FINITE"
