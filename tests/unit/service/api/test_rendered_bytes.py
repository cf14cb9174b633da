"""Masks and labels are rendered as bytes that are protobuf's own."""

from itertools import product
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from bertscope.v1 import classification_pb2, cloze_pb2
from bertscope_service.analyses.cloze import FilledMask
from bertscope_service.api.cloze_predictions import render_masks
from bertscope_service.api.label_predictions import render_labels
from bertscope_service.api.wire import Kept, number
from bertscope_service.checkpoints.entry_words import Word
from bertscope_service.checkpoints.tokenizer import TextTokenizer

TOKENIZER = cast(TextTokenizer, SimpleNamespace(piece=lambda token: f"##{token}é"))
WORDS = [Word("a", (1,)), Word("東京", (30_000, 2)), Word("", (0,)), Word("x" * 300, tuple(range(200)))]
LOGS = [0.0, -1e-300, -0.25, -800.0]
RANKS = [1, 0, 127, 300_000]


def mask_of(position: int, place: tuple[int, int, int], **options: Any) -> FilledMask:
    logs = np.array(LOGS)
    return FilledMask(position, place, WORDS, logs, np.exp(logs), RANKS, **options)


def expected(mask: FilledMask) -> cloze_pb2.FilledMask:
    """The message, as protobuf makes it."""
    segment, start, end = mask.place
    found = cloze_pb2.FilledMask(token_index=mask.position, start=start, end=end, segment=segment)
    for index, word in enumerate(mask.words):
        found.predictions.add(
            token=word.text,
            pieces=map(TOKENIZER.piece, word.pieces),
            piece_ids=word.pieces,
            probability=mask.probabilities[index],
            log_probability=mask.logs[index],
            candidate_probability=None if mask.shares is None else mask.shares[index],
            rank=mask.ranks[index] or None,
            logit=None if mask.logits is None else mask.logits[index],
        )
    return found


@pytest.mark.parametrize(
    ("shares", "logits"), list(product([None, np.array([0.0, 0.5, 1e-9, 0.5])], [None, [1.5, None, 0.0, -2.0]]))
)
def test_rendered_masks_are_protobufs(shares: Any, logits: Any) -> None:
    masks = [
        mask_of(0, (0, 0, 0), shares=shares, logits=logits),
        mask_of(511, (1, 5000, 100_000), shares=shares, logits=logits),
    ]
    rendered = list(map(cloze_pb2.FilledMask.FromString, render_masks(masks, TOKENIZER)))
    assert rendered == list(map(expected, masks))


def test_no_masks() -> None:
    assert list(render_masks([], TOKENIZER)) == []


def test_rendered_labels_are_protobufs() -> None:
    labels, ranked = ["a", "", "é" * 200], np.array([[2, 0], [1, 2], [0, 1]])
    probabilities, logits = (
        np.array([[0.5, 0.0], [1.0, 1e-300], [0.25, 0.75]]),
        np.array([[-1.5, 0.0], [7.0, -800.0], [3.0, 2.0]]),
    )
    field = classification_pb2.ClassifiedText.LABELS_FIELD_NUMBER
    rendered = render_labels(field, labels, ranked, probabilities, logits)
    for row, found in enumerate(map(classification_pb2.ClassifiedText.FromString, rendered)):
        columns = zip(ranked[row].tolist(), probabilities[row], logits[row], strict=True)
        assert list(found.labels) == [
            classification_pb2.LabelPrediction(label=labels[index], index=index, probability=probability, logit=logit)
            for index, probability, logit in columns
        ]
    assert not list(render_labels(field, labels, ranked[:0], probabilities[:0], logits[:0]))


def test_fields_of_large_numbers_are_not_kept() -> None:
    """Callers choose them."""
    fields = Kept(number, 7)
    assert [fields[value] for value in (0, 3, 300, 10**9)] == [number(7, value) for value in (0, 3, 300, 10**9)]
    assert set(fields) == {0, 3, 300}
