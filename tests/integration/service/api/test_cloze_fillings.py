"""Joint fillings through gRPC: the definition's numbers, and errors that name the field."""

import math
from pathlib import Path
from typing import Any

import pytest
from bertscope.v1 import cloze_pb2 as cloze
from bertscope_service.checkpoints.tokenizer import TextTokenizer

from tests.support.calls import call
from tests.support.decoding import Definition
from tests.support.harness import Host

TEXT = "The [MASK] sat on the [MASK]."
BEAM, LEFT_TO_RIGHT = cloze.MASK_DECODING_BEAM, cloze.MASK_DECODING_LEFT_TO_RIGHT
CONFIDENCE_FIRST = cloze.MASK_DECODING_CONFIDENCE_FIRST


def fill(host: Host, model: str = "bert", texts: Any = (TEXT,), **fields: Any) -> Any:
    return call(host, "FillMask", model=f"models/{model}", texts=texts, **fields)


def sums(result: cloze.FilledText) -> list[float]:
    return [filling.log_probability for filling in result.fillings]


@pytest.mark.slow
@pytest.mark.parametrize("model", ["bert", "roberta"])
@pytest.mark.parametrize("decoding", [LEFT_TO_RIGHT, CONFIDENCE_FIRST, BEAM])
def test_fillings_are_those_of_the_definition(host: Host, model: str, decoding: int, checkpoints: dict[str, Path]) -> None:
    definition = Definition(checkpoints[model])
    width = {"beam_width": 3} if decoding == BEAM else {}
    (result,) = fill(host, model, decoding=decoding, top_k=4, **width).results
    tokenizer = TextTokenizer.load(checkpoints[model], 64)
    sequence = tokenizer.encode(TEXT).sequence
    positions = [mask.token_index for mask in result.masks]
    assert [(mask.start, mask.end, len(mask.predictions)) for mask in result.masks] == [(4, 10, 0), (22, 28, 0)]
    if decoding == BEAM:
        expected = definition.beam(sequence, positions, 4, 3)
    else:
        expected = definition.greedy(sequence, positions, 4, confident=decoding == CONFIDENCE_FIRST)
    assert sums(result) == pytest.approx(expected, abs=2e-4)
    for filling in result.fillings:
        assert filling.log_probability == pytest.approx(
            math.fsum(log for span in filling.spans for log in span.log_probabilities)
        )
        assert filling.mean_log_probability == pytest.approx(filling.log_probability / 2)
        assert sorted(step for span in filling.spans for step in span.steps) == [0, 1]
        for span in filling.spans:
            assert list(span.pieces) == [tokenizer.piece(token) for token in span.piece_ids]
            assert span.token == tokenizer.word(span.piece_ids[0])


def test_one_mask_gets_the_predictions_of_independent_masks(host: Host) -> None:
    text = "Paris is the capital of [MASK]."
    (plain,) = fill(host, texts=[text]).results
    for decoding in (LEFT_TO_RIGHT, CONFIDENCE_FIRST, BEAM):
        (result,) = fill(host, texts=[text], decoding=decoding).results
        ids = [list(filling.spans[0].piece_ids) for filling in result.fillings]
        assert ids == [list(prediction.piece_ids) for prediction in plain.masks[0].predictions]
        assert sums(result) == pytest.approx([one.log_probability for one in plain.masks[0].predictions], abs=1e-6)
    assert not plain.fillings


def test_a_text_of_a_batch_is_filled_as_alone(host: Host) -> None:
    texts = [TEXT, "[MASK] is a city.", "The old man and his [MASK] [MASK] [MASK] to the market every day."]
    together = fill(host, texts=texts, decoding=BEAM, top_k=3).results
    for text, result in zip(texts, together, strict=True):
        (alone,) = fill(host, texts=[text], decoding=BEAM, top_k=3).results
        assert sums(result) == pytest.approx(sums(alone), abs=2e-5)


def test_a_mask_may_stand_for_several_pieces(host: Host) -> None:
    """By a beam unless another decoding is named; the fillings of one piece are among those that are compared."""
    (result,) = fill(host, texts=["The [MASK] song."], max_pieces=3, top_k=50).results
    means = [filling.mean_log_probability for filling in result.fillings]
    assert means == sorted(means, reverse=True)
    assert {len(filling.spans[0].pieces) for filling in result.fillings} == {1, 2, 3}
    (single,) = fill(host, texts=["The [MASK] song."], top_k=1).results
    ones = [filling.log_probability for filling in result.fillings if len(filling.spans[0].pieces) == 1]
    assert ones[0] == pytest.approx(single.masks[0].predictions[0].log_probability, abs=2e-5)
    named = fill(host, texts=["The [MASK] song."], max_pieces=3, top_k=50, decoding=BEAM).results[0]
    assert named == result
