"""Joint fillings of several masks against their definition in float64, for every architecture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from bertscope_service.analyses.cloze import ClozePlan, ClozeQuery
from bertscope_service.analyses.decoding import Blanks, Decoder, Decoding, Filling, count_rows
from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.edits import Edits
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.errors import FailedPrecondition

from tests.support.decoding import Definition
from tests.support.exports import load_exported
from tests.support.reference import EDITS, Subject
from tests.support.runner import run_rows
from tests.support.subjects import on_three

TEXTS = (
    "The [MASK] sat on the [MASK] in the [MASK], and the old man said that the dog walked.",
    "[MASK] is a city.",
    "“[MASK] [MASK]”",
)
TOP_K, WIDTH = 4, 3
TOLERANCE = 2e-4


def blanks_of(subject: Subject, texts: Sequence[str] = TEXTS) -> list[Blanks]:
    sequences = [subject.tokenizer.encode(text).sequence for text in texts]
    mask = subject.tokenizer.mask_id
    return [Blanks(one, tuple(place for place, token in enumerate(one.ids) if token == mask)) for one in sequences]


def decode(
    encoder: Encoder,
    blanks: Sequence[Blanks],
    decoding: Decoding,
    *,
    top_k: int = TOP_K,
    width: int = WIDTH,
    gates: Edits | None = None,
    batch: int = 5,
) -> list[list[Filling]]:
    decoder = Decoder(blanks, decoding, top_k=top_k, width=width)
    rows = 0
    while decoder.rows:
        rows += len(decoder.rows)
        decoder.advance(run_rows(encoder, decoder.rows, gates, batch=batch))
    assert rows <= sum(count_rows(len(blank.positions), decoding, width) for blank in blanks)
    return decoder.fillings


def in_order(blank: Blanks, filling: Filling) -> list[tuple[int, int, float]]:
    """Position, entry and logarithm of each mask, in the order of filling."""
    columns = zip(filling.steps, blank.positions, filling.ids, filling.logs, strict=True)
    return [(position, token, log) for _, position, token, log in sorted(columns)]


def check(definition: Definition, blank: Blanks, fillings: Sequence[Filling], expected: Sequence[float]) -> None:
    """The fillings are as likely as expected, each of them is as likely as it says, and none comes twice."""
    assert [filling.log_probability for filling in fillings] == pytest.approx(expected, abs=TOLERANCE)
    assert len({filling.ids for filling in fillings}) == len(fillings)
    for filling in fillings:
        placed = in_order(blank, filling)
        scores = definition.score(blank.sequence, tuple((position, token) for position, token, _ in placed))
        assert [log for _, _, log in placed] == pytest.approx(scores, abs=TOLERANCE)
        assert filling.mean_log_probability == pytest.approx(filling.log_probability / len(blank.positions))


def expected_of(definition: Definition, blank: Blanks, decoding: Decoding) -> list[float]:
    if decoding is Decoding.BEAM:
        return definition.beam(blank.sequence, blank.positions, TOP_K, WIDTH)
    return definition.greedy(blank.sequence, blank.positions, TOP_K, confident=decoding is Decoding.CONFIDENCE_FIRST)


@pytest.mark.slow
@pytest.mark.parametrize("decoding", Decoding)
def test_fillings_are_those_of_the_definition(subject: Subject, decoding: Decoding, export_cache: Path) -> None:
    """In batches of padded rows and alone, by PyTorch and by ONNX Runtime."""
    definition, blanks = Definition(subject.folder), blanks_of(subject)
    expected = [expected_of(definition, blank, decoding) for blank in blanks]
    runs = [
        decode(subject.encoder, blanks, decoding),
        decode(subject.encoder, blanks, decoding, batch=1),
        decode(load_exported(subject.folder, export_cache), blanks, decoding),
    ]
    for found in runs:
        for blank, fillings, scores in zip(blanks, found, expected, strict=True):
            assert len(fillings) == TOP_K
            check(definition, blank, fillings, scores)


@pytest.mark.slow
@on_three
def test_a_wide_beam_finds_the_likeliest_of_all_fillings(subject: Subject) -> None:
    """One that keeps the whole vocabulary is an exhaustive search over both masks."""
    definition, blank = Definition(subject.folder), blanks_of(subject)[2]
    size = subject.encoder.shape.vocabulary_size
    first, second = blank.positions
    firsts = definition.logs(blank.sequence, ())[first].tolist()
    pairs = [
        log + value
        for token, log in enumerate(firsts)
        for value in definition.logs(blank.sequence, ((first, token),))[second].topk(TOP_K).values.tolist()
    ]
    (found,) = decode(subject.encoder, [blank], Decoding.BEAM, width=size)
    check(definition, blank, found, sorted(pairs, reverse=True)[:TOP_K])


@on_three
@pytest.mark.parametrize("decoding", Decoding)
def test_one_mask_gets_the_predictions_of_independent_masks(subject: Subject, decoding: Decoding) -> None:
    plan = ClozePlan(ClozeQuery((TEXTS[1],), TOP_K, (), truncate=False), subject.tokenizer)
    (((mask),),) = plan.answer(run_rows(subject.encoder, plan.rows))
    (fillings,) = decode(subject.encoder, blanks_of(subject)[1:2], decoding)
    assert [filling.ids for filling in fillings] == [word.pieces for word in mask.words]
    assert [filling.log_probability for filling in fillings] == list(mask.logs)
    assert [filling.steps for filling in fillings] == [(0,)] * TOP_K


@on_three
def test_a_beam_of_width_one_decodes_from_left_to_right(subject: Subject) -> None:
    blanks = blanks_of(subject)
    assert decode(subject.encoder, blanks, Decoding.BEAM, width=1) == decode(subject.encoder, blanks, Decoding.LEFT_TO_RIGHT)


@pytest.mark.parametrize("subject", ["bert"], indirect=True)
def test_interventions_reach_every_round(subject: Subject) -> None:
    blank, edits = blanks_of(subject)[0], EDITS["mixed"]
    (fillings,) = decode(subject.encoder, [blank], Decoding.CONFIDENCE_FIRST, gates=subject.gates(edits))
    for filling in fillings:
        chosen: list[tuple[int, int]] = []
        for position, token, log in in_order(blank, filling):
            ids = list(blank.sequence.ids)
            for place, before in chosen:
                ids[place] = before
            logits = subject.reference.run_edited(TokenSequence(ids, blank.sequence.segments), edits).logits[0]
            assert log == pytest.approx(float(logits.double().log_softmax(dim=-1)[position, token]), abs=1e-3)
            chosen.append((position, token))


@pytest.mark.parametrize("name", ["bert"])
def test_scores_that_are_not_finite_are_refused(name: str, checkpoint: Callable[[str], Path]) -> None:
    subject = Subject(name, checkpoint(name))
    decoder = Decoder(blanks_of(subject), Decoding.BEAM, top_k=2, width=2)
    results = run_rows(subject.encoder, decoder.rows)
    results[1].top_logs = torch.full((1, 2), torch.nan).numpy()
    with pytest.raises(FailedPrecondition) as caught:
        decoder.advance(results)
    assert caught.value.reason == "SCORES_NOT_FINITE"
