"""Rendering of predicted labels: bertscope.v1.LabelPrediction, as bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from bertscope.v1.classification_pb2 import LabelPrediction
from numpy.typing import NDArray

from bertscope_service.api.wire import doubles, header


def render_labels(
    field: int,
    labels: Sequence[str],
    ranked: NDArray[np.int64],
    probabilities: NDArray[np.float64],
    logits: NDArray[np.float64],
) -> Iterator[bytes]:
    """Renders the predictions for each row, as the repeated `field` of its message.

    ranked, probabilities, logits: [rows, n], the numbers of the labels and their scores.
    """
    numbers, size = doubles(
        {
            LabelPrediction.PROBABILITY_FIELD_NUMBER: [probabilities.ravel()],
            LabelPrediction.LOGIT_FIELD_NUMBER: [logits.ravel()],
        }
    )
    named = (LabelPrediction(label=label, index=index).SerializeToString() for index, label in enumerate(labels))
    begun = [header(field, len(one) + size) + one for one in named]
    begin = 0
    for row in ranked.tolist():
        parts = list[bytes]()
        for label in row:
            parts += begun[label], numbers[begin : begin + size]
            begin += size
        yield b"".join(parts)
