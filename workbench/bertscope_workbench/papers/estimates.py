"""Computes what a test measures: a number of the model, its control's, and the difference with an interval over items.

Means have the studentized bootstrap of `bertscope.values.intervals`, shares against a known chance Wilson's interval, and other
statistics expanded percentiles (Hesterberg 2015, "What Teachers Should Know About the Bootstrap", section 4.6).
"""

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from statistics import NormalDist

import numpy as np
import numpy.typing as npt
from bertscope.values.bootstrap import MIN_ITEMS, student_quantile
from bertscope.values.display import record
from bertscope.values.intervals import mean_interval, wilson_interval

from bertscope_workbench.papers.pictures_data import Picture

Values = npt.NDArray[np.float64]
NAN = math.nan
CONFIDENCE = 0.95
WILSON = "Wilson's interval of a share"
"""The name of the interval of shares, by which verdicts know that its chance is that of a share."""
RESAMPLES = 2_000
"""Resamples of each interval."""
SEED = 0


class NotAsked(Exception):
    """A test can't be asked of a model; the message says why."""


@record
class Measured:
    """The answer to a test."""

    value: float
    """The model's number, in the test's unit."""
    control: float | None
    """The control's number in the same unit; None without a control."""
    difference: float
    """The judged number: the value minus the control, or the value itself without one."""
    low: float
    """Lower end of the difference's 95 % interval; NaN where there is none."""
    high: float
    """Its upper end."""
    items: int
    """The independent items that the interval is over."""
    data: str
    """The items: their number, kind, source and licence."""
    interval: str
    """How the interval was computed."""
    picture: Picture | None = None
    """The picture that shows the finding."""
    notes: tuple[str, ...] = ()
    """Remarks that a reader must know, such as items left out."""
    differences: tuple[float, ...] = ()
    """The difference of each item, where the judged number is their mean: for simulations. Files do not keep it."""


def paired(
    model: Sequence[float] | Values,
    control: Sequence[float] | Values | float | None = None,
    *,
    groups: Sequence[Hashable] | None = None,
    bounds: tuple[float, float] = (-math.inf, math.inf),
    data: str,
    picture: Picture | None = None,
    notes: Sequence[str] = (),
) -> Measured:
    """Returns the mean of items' numbers beside that of the control, and the interval of the mean difference.

    `control` has a number for each item, or one number for all; None judges the model's mean itself. Items of one group (a
    template, a word, a sentence) are alike, so they are averaged first, and the groups are the items of the interval. `bounds`
    are the least and the largest possible difference; without them, items that hardly differ have no interval. Items with NaN
    are left out. Raises NotAsked without an item.
    """
    own = np.asarray(model, np.float64)
    other = np.zeros_like(own) if control is None else np.broadcast_to(np.asarray(control, np.float64), own.shape)
    own, other = _by_group(own, other, groups)
    if not len(own):
        raise NotAsked("no item could be asked")
    differences = own - other
    ends = _mean_ends(differences, bounds)
    return Measured(
        value=float(own.mean()),
        control=None if control is None else float(other.mean()),
        difference=float(differences.mean()),
        low=ends[0],
        high=ends[1],
        items=len(own),
        data=data,
        interval="studentized bootstrap of the mean difference" if control is not None else "studentized bootstrap of the mean",
        picture=picture,
        notes=tuple(notes),
        differences=tuple(differences.tolist()),
    )


def shares(
    right: Sequence[bool] | npt.NDArray[np.bool_],
    chance: float | None = None,
    *,
    data: str,
    picture: Picture | None = None,
    notes: Sequence[str] = (),
) -> Measured:
    """Returns the share of independent items that are right, beside a chance that is known exactly; Wilson's interval (1927).

    Raises NotAsked without an item.
    """
    hits = np.asarray(right, bool)
    if not len(hits):
        raise NotAsked("no item could be asked")
    value, base = float(hits.mean()), chance or 0.0
    low, high = wilson_interval(int(hits.sum()), len(hits), confidence=CONFIDENCE)
    return Measured(
        value=value,
        control=chance,
        difference=value - base,
        low=low - base,
        high=high - base,
        items=len(hits),
        data=data,
        interval=WILSON,
        picture=picture,
        notes=tuple(notes),
        differences=tuple((hits - base).tolist()),
    )


def bootstrapped(
    statistic: Callable[[npt.NDArray[np.int64]], float],
    items: int,
    *,
    value: float | None = None,
    control: float | None = None,
    resamples: int = RESAMPLES,
    data: str,
    picture: Picture | None = None,
    notes: Sequence[str] = (),
) -> Measured:
    """Returns a number that is no mean, such as a correlation: `statistic` computes it from indices of items, drawn with
    replacement for its interval.

    `statistic` is the judged difference. `value` and `control` are the two numbers to show; without them the statistic of all
    items is the value. Resamples without a finite number are left out; with more than a tenth of them there is no interval.
    Raises NotAsked without an item.
    """
    if items < 1:
        raise NotAsked("no item could be asked")
    difference = float(statistic(np.arange(items)))
    generator = np.random.default_rng(SEED)
    drawn = np.array([statistic(generator.integers(0, items, items)) for _ in range(resamples if items >= MIN_ITEMS else 0)])
    drawn = drawn[np.isfinite(drawn)]
    low = high = NAN
    if len(drawn) >= 0.9 * resamples and math.isfinite(difference):
        reach = math.sqrt(items / (items - 1)) * student_quantile(items - 1, (1 + CONFIDENCE) / 2)
        tail = NormalDist().cdf(-reach)
        low, high = map(float, np.quantile(drawn, [tail, 1 - tail]))
        low, high = min(low, difference), max(high, difference)
    return Measured(
        value=difference if value is None else value,
        control=control,
        difference=difference,
        low=low,
        high=high,
        items=items,
        data=data,
        interval="expanded percentiles of a bootstrap of the items",
        picture=picture,
        notes=tuple(notes),
    )


def rounded(measured: Measured) -> Measured:
    """Returns the measurement with the digits that files keep, so that an answer that was kept is judged like a fresh one."""

    def digits(value: float) -> float:
        return float(f"{value:.6g}")

    return replace(
        measured,
        value=digits(measured.value),
        control=None if measured.control is None else digits(measured.control),
        difference=digits(measured.difference),
        low=digits(measured.low),
        high=digits(measured.high),
    )


def halves(items: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Returns the items to choose on, and the others to score on: every second one each."""
    indices = np.arange(items)
    return indices[::2], indices[1::2]


def _by_group(own: Values, other: Values, groups: Sequence[Hashable] | None) -> tuple[Values, Values]:
    """Returns the means of each group, in order of appearance; items alone without groups. Items with NaN are left out."""
    there = np.isfinite(own) & np.isfinite(other)
    if groups is None:
        return own[there], other[there]
    places: dict[Hashable, list[int]] = {}
    for index in np.flatnonzero(there).tolist():
        places.setdefault(groups[index], []).append(index)
    means = [(own[indices].mean(), other[indices].mean()) for indices in places.values()]
    found = np.array(means, np.float64).reshape(-1, 2)
    return found[:, 0], found[:, 1]


def _mean_ends(differences: Values, bounds: tuple[float, float]) -> tuple[float, float]:
    if len(differences) < MIN_ITEMS:
        return NAN, NAN
    if not all(map(math.isfinite, bounds)) and float(np.ptp(differences)) == 0:
        return NAN, NAN
    # The adjusted interval of items that hardly differ adds items at both bounds: the observed range stands for unknown ones.
    low, high = (each if math.isfinite(each) else end for each, end in zip(bounds, _range(differences), strict=True))
    found = mean_interval([differences], (low, high), confidence=CONFIDENCE, resamples=RESAMPLES, seed=SEED)
    return (NAN, NAN) if found is None else (found.low, found.high)


def _range(differences: Values) -> tuple[float, float]:
    low, high = float(differences.min()), float(differences.max())
    return low - (high - low), high + (high - low)
