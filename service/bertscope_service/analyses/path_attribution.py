"""Divides a number among the units of a text by gradients: see bertscope.v1.AttributionMethod."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertscope_service.analyses.lazy_sequence import LazySequence
from bertscope_service.analyses.observers.path_gradients import Base, PathObserver
from bertscope_service.analyses.observers.targets import Target
from bertscope_service.analyses.shapley import Shares
from bertscope_service.analyses.text_units import TextUnits
from bertscope_service.analyses.texts import check_finite
from bertscope_service.encoders.observer import Observer
from bertscope_service.encoders.sequences import TokenSequence

Row = tuple[TokenSequence, Observer]

LEAST_SHARE = 0.1
"""A difference that is a smaller share of the sum of absolute values gives way to that share: it would make any error large."""

ROUNDING = 1e-5
"""A gap that is no larger a share of the number itself is rounding of float32: where nothing changes, that is all there is."""
FEW_STEPS = 100
"""Errors of so few steps may stay large for a while before they fall."""


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps of integrated gradients to begin with. They are tripled, up to `most`, as long as the error is over
    `tolerance`, and, beyond FEW_STEPS, two triplings halve it."""

    first: int
    most: int
    tolerance: float


class PathSteps:
    """The steps of a line from 0 to 1, by the midpoint rule: `shares` are those of the first round; without a plan 1 alone."""

    def __init__(self, plan: Steps | None) -> None:
        self._plan, self._errors = plan, list[float]()
        self.steps = 1 if plan is None else plan.first
        self.shares = [1.0] if plan is None else midpoints(self.steps)

    def more(self, error: float) -> list[float]:
        """Returns the shares of another round, none if the error is small enough, or no number of steps would make it so: where
        the score jumps, as at a state of zeros before a normalisation."""
        plan = self._plan
        self._errors.append(error)
        stalled = self.steps > FEW_STEPS and len(self._errors) > 2 and error > self._errors[-3] / 2
        if plan is None or error <= plan.tolerance or stalled or 3 * self.steps > plan.most:
            return []
        self.steps *= 3
        # The midpoints of the former steps are among the new ones.
        return [share for step, share in enumerate(midpoints(self.steps)) if step % 3 != 1]


class GradientWork:
    """Divides the number of a text by its gradients with respect to the states before layer 0, round by round.

    With steps by integrated gradients (Sundararajan et al. 2017): the mean of the gradient on the line from the text without
    its units to the text, by the midpoint rule, times the difference of both ends. Without, by the gradient at the text alone.
    """

    def __init__(
        self, units: TextUnits, target: Target, mask_id: int | None, steps: Steps | None = None, *, frozen: bool = False
    ) -> None:
        """Absent units are masks, or zeros in place of states if `mask_id` is None. `frozen`: with frozen layers, all states
        measured from zero; without steps and `mask_id`."""
        self._text = units.tokenized.sequence
        self._target, self._plan, self._frozen = target, steps, frozen
        self._steps = PathSteps(steps)
        self._of, self._units = units.of, len(units)
        self._base: Base = np.full(len(units.of), True) if frozen else units.of >= 0
        if mask_id is not None:
            self._base = units.without(np.zeros(len(units), dtype=bool), mask_id)
        self._sums = np.zeros(len(units.of))
        self._value = self._value_absent = 0.0
        self._ends = self._end_rows()
        self.evaluations = 0
        self.rows: Sequence[Row] = self._rows(self._steps.shares)

    def _end_rows(self) -> list[Row]:
        """Returns the rows that need no gradient: the text without its units, and the whole text if no step is there."""
        if self._frozen:
            return []
        without: Row = (self._text, PathObserver(self._target, self._base, share=0.0))
        if isinstance(self._base, TokenSequence):
            without = (self._base, self._target)
        return [without] if self._plan is None else [without, (self._text, self._target)]

    def _rows(self, shares: Sequence[float]) -> Sequence[Row]:
        ends = self._ends

        def make(row: int) -> Row:
            if row < len(ends):
                return ends[row]
            return self._text, PathObserver(self._target, self._base, shares[row - len(ends)], self._frozen)

        return LazySequence(len(ends) + len(shares), make)

    def advance(self, results: Sequence[Any]) -> None:
        """Takes one result for each of `rows`, and replaces `rows` by those of the next round, none after the last one.

        Raises FailedPrecondition for numbers that are not finite.
        """
        if not self.evaluations:
            numbers = [one if isinstance(one, float) else one[0] for one in results[:2]]
            # The whole text comes behind the one without units: as an end, or as the only step.
            self._value_absent, self._value = numbers if self._ends else (0.0, numbers[0])
        self.evaluations += len(results)
        for _, contributions in results[len(self._ends) :]:
            self._sums += contributions
        check_finite([self._sums, np.array([self._value, self._value_absent])])
        self.shares, self._ends, self.rows = self._divide(), [], ()
        if more := self._steps.more(self.shares.completeness_error or 0.0):
            self.rows = self._rows(more)

    def _divide(self) -> Shares:
        contributions, within = self._sums / self._steps.steps, self._of >= 0
        values = np.zeros(self._units)
        np.add.at(values, self._of[within], contributions[within])
        error = None
        if not self._frozen:
            error = completeness_error(contributions, float(np.abs(values).sum()), self._value, self._value_absent)
        steps = 0 if self._plan is None else self._steps.steps
        return Shares(values, self._value, self._value_absent, completeness_error=error, steps=steps)


def completeness_error(contributions: NDArray[np.float64], size: float, value: float, absent: float) -> float:
    """Returns the distance of the sum of all contributions from the difference that they explain, as a share of it; `size` is
    the sum of absolute values that are told."""
    difference = value - absent
    gap = abs(float(contributions.sum()) - difference)
    if gap <= ROUNDING * max(abs(value), abs(absent)):
        return 0.0
    return gap / max(abs(difference), LEAST_SHARE * size)


def midpoints(steps: int) -> list[float]:
    """Returns the middles of so many steps from 0 to 1."""
    return [(step + 0.5) / steps for step in range(steps)]
