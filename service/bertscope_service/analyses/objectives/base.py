"""The interface of an objective: the rows to observe, and the conversion of their results to a number for each item."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bertscope_service.analyses.metrics import Metric
from bertscope_service.analyses.observers.predictions import LossObserver
from bertscope_service.encoders.observer import Observer
from bertscope_service.encoders.sequences import TokenSequence


class Objective(Protocol):
    """Items (texts, prompts, pairs) that are measured again and again while heads are changed.

    An item may take several rows. `observers` see the untouched run; `later_observers` see every other run and may use the
    results of the untouched one.
    """

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The metrics of each item."""

    @property
    def items(self) -> int:
        """The number of items."""

    @property
    def sequences(self) -> Sequence[TokenSequence]:
        """The rows."""

    @property
    def observers(self) -> Sequence[Observer]:
        """The observer of each row of the untouched run."""

    @property
    def truncated(self) -> int:
        """The number of texts that were cut."""

    @property
    def skipped(self) -> int:
        """The number of items that were left out."""

    @property
    def pieces(self) -> int:
        """The number of masks that are predicted, in all rows."""

    def later_observers(self, untouched: Sequence[Any]) -> Sequence[Observer]:
        """Returns one observer for each row, given the results of `observers` on the untouched model."""

    def measure(self, seen: Sequence[Any]) -> NDArray[np.float64]:
        """Converts the results of the observers to values [metrics, items]. Raises FailedPrecondition for numbers that are not
        finite."""

    @property
    def losses(self) -> Sequence[LossObserver]:
        """One observer for each row whose loss can be differentiated; the losses of an item's rows add up to its loss. Empty
        for an objective without a loss."""
