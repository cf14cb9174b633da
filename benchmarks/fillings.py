"""Whether masks were filled rightly, where batches round differently and the likeliest pieces may be close to each other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import numpy as np

TOLERANCE = 2e-3
"""Of a log-probability, nats. A text in another batch, or by another library, rounds differently; wrong ones are far off."""

Filling = Mapping[tuple[int, ...], float]
"""What fills one mask: the log-probability of each word, by the ids of its pieces."""


class Prediction(Protocol):
    """A prediction on the wire, of the client or of the analysis: they name these alike."""

    @property
    def piece_ids(self) -> Sequence[int]: ...
    @property
    def log_probability(self) -> float: ...


class FilledMask(Protocol):
    """A mask with its predictions."""

    @property
    def predictions(self) -> Iterable[Prediction]: ...


class FilledText(Protocol):
    """A text with its masks."""

    @property
    def masks(self) -> Iterable[FilledMask]: ...


def fillings(texts: Iterable[FilledText]) -> list[Filling]:
    """Of every mask of every text, in order."""
    return [
        {tuple(prediction.piece_ids): prediction.log_probability for prediction in mask.predictions}
        for text in texts
        for mask in text.masks
    ]


def agree(found: Sequence[Filling], truth: Sequence[Filling]) -> bool:
    """Whether every mask has the words that it should.

    `truth` may hold more words of a mask than `found`: which of two that are equally likely comes last is nobody's fault. The
    values of what was found must be those of the same words and of the likeliest ones.
    """
    return len(found) == len(truth) and all(map(_agree, found, truth))


def _agree(found: Filling, truth: Filling) -> bool:
    if not found or not found.keys() <= truth.keys():
        return False
    values = list(found.values())
    likeliest = sorted(truth.values(), reverse=True)[: len(found)]
    same = np.allclose(values, [truth[word] for word in found], rtol=0, atol=TOLERANCE)
    return bool(same and np.allclose(sorted(values, reverse=True), likeliest, rtol=0, atol=TOLERANCE))
