"""Compares predictions for masks, where batches round differently and the likeliest pieces may be close to each other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

TOLERANCE = 2e-3
"""Tolerance of a log-probability, nats. A text in another batch, or by another library, rounds differently; wrong ones differ
by far more."""

Filling = Mapping[tuple[int, ...], float]
"""The predictions for one mask: the log-probability of each word, by the ids of its pieces."""


def fillings(texts: Iterable[Any]) -> list[Filling]:
    """Returns the predictions for every mask of every text, of the wire or of the client, in order: both have these names."""
    return [
        {tuple(prediction.piece_ids): prediction.log_probability for prediction in mask.predictions}
        for text in texts
        for mask in text.masks
    ]


def agree(found: Sequence[Filling], truth: Sequence[Filling]) -> bool:
    """Returns whether every mask has the right words.

    `truth` may hold more words of a mask than `found`: the order of equally likely words is arbitrary. The found values must be
    those of the same words and of the likeliest ones.
    """
    return len(found) == len(truth) and all(map(_agree, found, truth))


def _agree(found: Filling, truth: Filling) -> bool:
    if not found or not found.keys() <= truth.keys():
        return False
    values = list(found.values())
    likeliest = sorted(truth.values(), reverse=True)[: len(found)]
    same = np.allclose(values, [truth[word] for word in found], rtol=0, atol=TOLERANCE)
    return bool(same and np.allclose(sorted(values, reverse=True), likeliest, rtol=0, atol=TOLERANCE))
