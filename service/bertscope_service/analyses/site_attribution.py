"""Divides a number among the units of a site by gradients, one layer at a time.

Units of feed-forward blocks with a large share are knowledge neurons (Dai et al. 2022, "Knowledge Neurons in Pretrained
Transformers", section 3.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertscope_service.analyses.lazy_sequence import LazySequence
from bertscope_service.analyses.observers.site_gradients import SitePathObserver
from bertscope_service.analyses.observers.targets import Target
from bertscope_service.analyses.path_attribution import PathSteps, Row, Steps, completeness_error
from bertscope_service.analyses.shapley import Shares
from bertscope_service.analyses.texts import check_finite
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.encoders.sites import Codes, Finder, Site
from bertscope_service.errors import InvalidArgument

MAX_POSITIONS = 128
"""Positions of a text whose units count: each has as many numbers as its layer has units."""


@dataclass(frozen=True, slots=True, eq=False)
class SiteQuery:
    """A bertscope.v1.AttributedSite; `where` is None for the masks, or all tokens of a text without one. `codes`: the units of
    Site.STATE."""

    site: Site
    layers: tuple[int, ...]
    where: Finder | None
    top: int
    codes: Codes | None = None

    def positions(self, sequence: TokenSequence, mask_id: int | None, field: str) -> NDArray[np.int64]:
        """Returns the positions in a text. Raises InvalidArgument if there are none, or too many."""
        if self.where is None:
            masks = np.flatnonzero(np.asarray(sequence.ids) == (-1 if mask_id is None else mask_id))
            found = masks if len(masks) else np.arange(len(sequence), dtype=np.int64)
        else:
            found = self.where(sequence, {})
        if not len(found):
            message = f"{field} has no token at site.positions; name others"
            raise InvalidArgument("site.positions", message, "EMPTY_POSITIONS")
        if len(found) > MAX_POSITIONS:
            message = f"{field} has {len(found)} tokens at site.positions and {MAX_POSITIONS} may be; name fewer"
            raise InvalidArgument("site.positions", message, "TOO_MANY_POSITIONS", limit=MAX_POSITIONS)
        return found


@dataclass(frozen=True, slots=True)
class UnitShare:
    """The share of one unit at one position."""

    layer: int
    position: int
    unit: int
    value: float


class LayerLine:
    """The line of one layer, from its units at 0 to its units as they are, with the sums along it."""

    def __init__(self, layer: int, plan: Steps | None) -> None:
        self.layer, self.steps = layer, PathSteps(plan)
        self.points: list[float | None] = [None, *self.steps.shares]
        """The points that are to run: None is the end at 0, without a gradient."""
        self.sums: Any = 0.0
        """Gradients times units, summed over the points, float64 [positions, units]."""
        self.absent = self.error = 0.0

    def advance(self, results: Sequence[tuple[float, NDArray[np.float32] | None]], value: float) -> None:
        """Takes one result for each of `points`, and replaces these. `value`: the number of the whole text."""
        for point, (number, sums) in zip(self.points, results, strict=True):
            if point is None:
                self.absent = number
            elif sums is not None:
                self.sums = self.sums + sums.astype(np.float64)
        check_finite([self.values, np.array([self.absent, value])])
        self.error = completeness_error(self.values, float(np.abs(self.values).sum()), value, self.absent)
        self.points = [*self.steps.more(self.error)]

    @property
    def values(self) -> NDArray[np.float64]:
        """The shares of all units, float64 [positions, units]."""
        return np.asarray(self.sums / self.steps.steps)


class SiteWork:
    """Divides the number of a text among the units of a site, round by round.

    With steps by integrated gradients: the mean of the gradient on the line from 0 to what the units of a layer are, by the
    midpoint rule, times what they are. Without, by the gradient at the text alone. Other layers are as they are.
    """

    def __init__(
        self, sequence: TokenSequence, positions: NDArray[np.int64], target: Target, query: SiteQuery, steps: Steps | None
    ) -> None:
        self._sequence, self._positions, self._target, self._query = sequence, positions, target, query
        self.lines = [LayerLine(layer, steps) for layer in query.layers]
        self._steps = steps
        self._value = 0.0
        self.evaluations = 0
        self.rows: Sequence[Row] = self._rows(first=True)

    def _rows(self, *, first: bool = False) -> Sequence[Row]:
        """Returns the rows of the points that are to run; at first also the text as it is."""
        points = [(line, point) for line in self.lines for point in line.points]

        def make(row: int) -> Row:
            if first and not row:
                return self._sequence, self._target
            line, point = points[row - first]
            place, summed = (self._query.site, line.layer), None if point is None else line
            return self._sequence, SitePathObserver(
                self._target, place, self._positions, point or 0.0, summed, self._query.codes
            )

        return LazySequence(len(points) + first, make)

    def advance(self, results: Sequence[Any]) -> None:
        """Takes one result for each of `rows`, and replaces `rows` by those of the next round, none after the last one.

        Raises FailedPrecondition for numbers that are not finite.
        """
        rest = iter(results)
        if not self.evaluations:
            self._value = next(rest)
        self.evaluations += len(results)
        for line in self.lines:
            if line.points:
                line.advance([next(rest) for _ in line.points], self._value)
        self.rows = self._rows()
        if not len(self.rows):
            self.rows = ()

    @property
    def shares(self) -> Shares:
        """The number; words have no share of it."""
        steps = 0 if self._steps is None else max(line.steps.steps for line in self.lines)
        error = max(line.error for line in self.lines)
        return Shares(np.zeros(0), self._value, 0.0, completeness_error=error, steps=steps)

    @property
    def layer_sums(self) -> list[float]:
        """The sum of all shares of each layer."""
        return [float(line.values.sum()) for line in self.lines]

    def top(self) -> list[UnitShare]:
        """Returns the units of the largest absolute shares, in descending order of these."""
        found = []
        for line in self.lines:
            values = line.values.ravel()
            best = np.argsort(-np.abs(values), kind="stable")[: self._query.top]
            width = line.values.shape[1]
            found += [
                UnitShare(line.layer, int(self._positions[one // width]), one % width, float(values[one]))
                for one in best.tolist()
            ]
        return sorted(found, key=lambda share: -abs(share.value))[: self._query.top]
