"""What an objective is to those who run it: rows to observe, and the way from what was observed to a number for each item."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bertscope_service.analyses.ablation import Metric
from bertscope_service.analyses.observer import Observer
from bertscope_service.analyses.probes import LossProbe
from bertscope_service.encoders.base import TokenSequence


class Objective(Protocol):
    """Items (texts, prompts, pairs) that are measured again and again while heads are changed.

    An item may take several rows. `probes` observe the untouched run; `later_probes` every other one, and may use what the
    untouched run gave.
    """

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """What is measured on each item."""

    @property
    def items(self) -> int:
        """How many there are."""

    @property
    def sequences(self) -> Sequence[TokenSequence]:
        """The rows."""

    @property
    def probes(self) -> Sequence[Observer]:
        """One for each row of the untouched run."""

    @property
    def truncated(self) -> int:
        """Texts that were cut."""

    @property
    def skipped(self) -> int:
        """Items that were left out."""

    @property
    def pieces(self) -> int:
        """Masks that are predicted, in all rows."""

    def later_probes(self, untouched: Sequence[Any]) -> Sequence[Observer]:
        """One probe for each row, given what `probes` saw of the untouched model."""

    def measure(self, seen: Sequence[Any]) -> NDArray[np.float64]:
        """[metrics, items], from what the probes saw of each row. Raises FailedPrecondition for numbers that are not finite."""

    @property
    def losses(self) -> Sequence[LossProbe]:
        """One probe for each row whose loss can be differentiated; empty for an objective that has none. Each item is one row
        then."""
