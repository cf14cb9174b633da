"""Measures the coverage of intervals against alternatives, by simulation.

`python -m benchmarks intervals` prints the tables of docs/statistics.md: of means, of ratios, of shares over texts, of the
agreement of texts' vectors, of what a distillation brought back, and of ratios of median timings.
The truth is known, since the items are drawn from distributions. A method holds if 95 % of its intervals do.
"""

from __future__ import annotations

import argparse
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from bertscope.values.bootstrap import studentized
from bertscope.values.intervals import share_interval, wilson_interval
from bertscope_service.analyses.ablation import Bootstrap
from bertscope_service.analyses.intervals import adjusted_wald, hybrid_wilson, studentized_ratio
from bertscope_service.analyses.statistics import Resamples
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri, stdtrit

from benchmarks.micro.measured_intervals import recovery_table, timing_table
from benchmarks.micro.vector_intervals import vector_table

Floats = NDArray[np.float64]
Ends = tuple[Floats, Floats]
Draw = Callable[[np.random.Generator, int, int], Ends]
CONFIDENCE, RESAMPLES = 0.95, 1000
TAIL = (1 - CONFIDENCE) / 2
SIZES = (5, 8, 15, 30, 100)
AT_A_TIME = 500
"""The number of data sets that share their resamples."""


def _flips(lost: float, won: float) -> Callable[[np.random.Generator, int, int], Floats]:
    """Draws differences of accuracies: some items become wrong, some right."""

    def draw(generator: np.random.Generator, items: int, sets: int) -> Floats:
        share = generator.random((items, sets))
        return (share < won).astype(float) - ((share >= won) & (share < won + lost))

    return draw


def _pairs(generator: np.random.Generator, items: int, sets: int) -> Floats:
    """Draws losses of the same items before and after: log-normal, with a multiplicative change."""
    before = generator.lognormal(0, 1, (items, sets))
    return before * np.exp(generator.normal(0.1, 0.3, (items, sets))) - before


def _zeros(share: float) -> Callable[[np.random.Generator, int, int], Floats]:
    """Draws log-normal differences, and items without any."""
    return lambda generator, items, sets: generator.lognormal(0, 1, (items, sets)) * (generator.random((items, sets)) >= share)


DISTRIBUTIONS: Mapping[str, tuple[Callable[[np.random.Generator, int, int], Floats], float]] = {
    "normal": (lambda generator, items, sets: generator.normal(0.3, 1, (items, sets)), 0.3),
    "heavy tails (Student's t, 3 degrees)": (lambda generator, items, sets: generator.standard_t(3, (items, sets)), 0.0),
    "log-normal": (lambda generator, items, sets: generator.lognormal(0, 1, (items, sets)), math.exp(0.5)),
    "squares of normal (a divergence)": (lambda generator, items, sets: generator.normal(0, 1, (items, sets)) ** 2, 1.0),
    "correlated pairs of losses": (_pairs, math.exp(0.5) * (math.exp(0.1 + 0.3**2 / 2) - 1)),
    "half of the items do not move": (_zeros(0.5), 0.5 * math.exp(0.5)),
    "0.8 of the items do not move": (_zeros(0.8), 0.2 * math.exp(0.5)),
    "accuracy, 0.3 lost, 0.1 won": (_flips(0.3, 0.1), -0.2),
    "accuracy, 0.05 lost, 0.05 won": (_flips(0.05, 0.05), 0.0),
    "accuracy, 0.1 lost": (_flips(0.1, 0.0), -0.1),
}
"""Functions that draw items [items, sets], and their true mean."""


def percentile(values: Floats, means: Floats) -> Ends:
    """Returns percentile intervals, the service's former method."""
    low, high = np.quantile(means, [TAIL, 1 - TAIL], axis=0)
    return low, high


def expanded(values: Floats, means: Floats) -> Ends:
    """Returns expanded percentile intervals, Hesterberg 2015, section 4.6."""
    tail = _expanded_tail(len(values))
    low, high = np.quantile(means, [tail, 1 - tail], axis=0)
    return low, high


def _expanded_tail(items: int) -> float:
    return float(ndtr(math.sqrt(items / (items - 1)) * stdtrit(items - 1, TAIL)))


def bca(values: Floats, means: Floats) -> Ends:
    """Returns BCa intervals as scipy.stats.bootstrap: bias from the share of smaller means, acceleration from the jackknife."""
    mean, ordered, rows = values.mean(axis=0), np.sort(means, axis=0), len(means)
    below = ((means < mean).mean(axis=0) + (means <= mean).mean(axis=0)) / 2
    bias = ndtri(below.clip(1 / rows, 1 - 1 / rows))
    off = mean - values
    squares = (off**2).sum(axis=0)
    skew = -(off**3).sum(axis=0) / (6 * np.where(squares > 0, squares, 1.0) ** 1.5)
    ends = []
    for normal in (ndtri(TAIL), ndtri(1 - TAIL)):
        place = ndtr(bias + (bias + normal) / (1 - skew * (bias + normal))) * (rows - 1)
        ends.append(np.take_along_axis(ordered, place.round().astype(int)[None], axis=0)[0])
    return ends[0], ends[1]


def student(values: Floats, means: Floats) -> Ends:
    """Returns Student's t intervals, without resamples."""
    mean, error = values.mean(axis=0), values.std(axis=0, ddof=1) / math.sqrt(len(values))
    reach = float(stdtrit(len(values) - 1, 1 - TAIL)) * error
    return mean - reach, mean + reach


OTHERS = {"percentile": percentile, "expanded percentile": expanded, "BCa": bca, "Student's t": student}


def coverage(name: str, items: int, sets: int) -> dict[str, tuple[float, float]]:
    """Returns, for each method, the share of its intervals that hold the truth, and the share of data sets for which it gave
    one."""
    draw, truth = DISTRIBUTIONS[name]
    found: dict[str, list[tuple[Floats, NDArray[np.bool_]]]] = {}
    for seed in range(-(-sets // AT_A_TIME)):
        values = draw(np.random.default_rng([seed, items]), items, AT_A_TIME)
        counts = list(Resamples(items, Bootstrap(RESAMPLES, seed, CONFIDENCE)))
        means = np.concatenate([drawn @ values / items for drawn in counts])
        ours = adjusted_wald(values, CONFIDENCE) if "accuracy" in name else studentized(values, counts, CONFIDENCE)
        for method, (low, high) in {
            **{other: method(values, means) for other, method in OTHERS.items()},
            "studentized": studentized(values, counts, CONFIDENCE),
            "the service": ours,
        }.items():
            holds = (low <= truth + 1e-12) & (high >= truth - 1e-12)
            found.setdefault(method, []).append((holds.astype(float), ~np.isnan(low)))
    return _shares(found)


def table(sets: int) -> Iterator[str]:
    """Yields lines of a Markdown table."""
    methods = [*OTHERS, "studentized", "the service"]
    yield f"| items | distribution | {' | '.join(methods)} | has an interval |"
    yield "|" + "---|" * (len(methods) + 3)
    for name in DISTRIBUTIONS:
        for items in SIZES:
            yield _row(items, name, methods, coverage(name, items, sets))


def _kept(right: float, kept: float, won: float) -> Draw:
    """Draws which items are right after a change and before it."""

    def draw(generator: np.random.Generator, items: int, sets: int) -> Ends:
        before, share = generator.random((items, sets)) < right, generator.random((items, sets))
        return np.where(before, share < kept, share < won).astype(float), before.astype(float)

    return draw


def _losses(generator: np.random.Generator, items: int, sets: int) -> Ends:
    before = generator.lognormal(0, 1, (items, sets))
    return before * np.exp(generator.normal(0.1, 0.3, (items, sets))), before


def _ranks(generator: np.random.Generator, items: int, sets: int) -> Ends:
    """Draws reciprocal ranks, a third of which changed."""
    first, second = (1 / generator.geometric(0.3, (items, sets)) for _ in range(2))
    return np.where(generator.random((items, sets)) < 1 / 3, second, first), first


RATIOS: Mapping[str, tuple[Draw, float]] = {
    "correlated losses": (_losses, math.exp(0.1 + 0.3**2 / 2)),
    "independent losses (gamma)": (lambda g, items, sets: (g.gamma(2, 1.5, (items, sets)), g.gamma(2, 1, (items, sets))), 1.5),
    "reciprocal ranks, a third changed": (_ranks, 1.0),
    "accuracy 0.8, 0.9 of it kept": (_kept(0.8, 0.9, 0.0), 0.9),
    "accuracy 0.5, 0.9 kept, 0.1 won": (_kept(0.5, 0.9, 0.1), 1.0),
    "accuracy 0.3, half kept": (_kept(0.3, 0.5, 0.0), 0.5),
}
"""Functions that draw both values of items, twice [items, sets], and the true ratio of their means."""


def _ratio_ends(name: str, above: Floats, below: Floats, counts: list[Floats]) -> dict[str, Ends]:
    items = len(above)
    with np.errstate(divide="ignore", invalid="ignore"):
        drawn = np.concatenate([(row @ above) / (row @ below) for row in counts])
        value = np.log(above.mean(axis=0) / below.mean(axis=0))
        error = np.sqrt(((above / above.mean(axis=0) - below / below.mean(axis=0)) ** 2).sum(axis=0)) / math.sqrt(
            items * (items - 1)
        )
        reach = float(stdtrit(items - 1, 1 - TAIL)) * error
        delta = np.exp(value - reach), np.exp(value + reach)
    drawn[np.isnan(drawn)] = 1.0
    found = {}
    for method, tail in (("percentile", TAIL), ("expanded percentile", _expanded_tail(items))):
        low, high = np.quantile(drawn, [tail, 1 - tail], axis=0, method="inverted_cdf")
        found[method] = low, high
    if "accuracy" in name:
        ours = hybrid_wilson(above, below, CONFIDENCE)
    else:
        ours = studentized_ratio(above, below, counts, CONFIDENCE)
    return found | {"Student's t of the logarithm": delta, "the service": ours}


def ratio_coverage(name: str, items: int, sets: int) -> dict[str, tuple[float, float]]:
    """Returns the coverage of ratios of means, as `coverage`; data sets whose baseline is 0 throughout have no ratio and are
    left out."""
    draw, truth = RATIOS[name]
    found: dict[str, list[tuple[Floats, NDArray[np.bool_]]]] = {}
    for seed in range(-(-sets // AT_A_TIME)):
        above, below = draw(np.random.default_rng([seed, items]), items, AT_A_TIME)
        some = below.any(axis=0)
        counts = list(Resamples(items, Bootstrap(RESAMPLES, seed, CONFIDENCE)))
        for method, (low, high) in _ratio_ends(name, above[:, some], below[:, some], counts).items():
            holds = (low <= truth + 1e-12) & (high >= truth - 1e-12)
            found.setdefault(method, []).append((holds.astype(float), ~(np.isnan(low) | np.isnan(high))))
    return _shares(found)


def ratio_table(sets: int) -> Iterator[str]:
    """Yields lines of a Markdown table."""
    methods = ("percentile", "expanded percentile", "Student's t of the logarithm", "the service")
    yield f"| items | ratio of | {' | '.join(methods)} | has an interval |"
    yield "|" + "---|" * (len(methods) + 3)
    for name in RATIOS:
        for items in SIZES:
            yield _row(items, name, methods, ratio_coverage(name, items, sets))


TEXTS = ((10, 1, 3), (20, 1, 3), (40, 1, 3), (100, 1, 3), (50, 5, 35))
"""The number of texts, and the fewest and the most places of a text."""


def share_table(sets: int) -> Iterator[str]:
    """Yields lines of a Markdown table: how often the client's intervals of shares over texts hold, and Wilson's over places,
    where the chances of the places of a text are correlated."""
    yield "| texts | places of a text | share | correlation | the client | Wilson, of places |"
    yield "|---|---|---|---|---|---|"
    for texts, fewest, most in TEXTS:
        for share, alike in itertools.product((0.8, 0.95), (0.02, 0.2)):
            generator, held = np.random.default_rng([texts, most]), np.zeros(2)
            for _ in range(sets):
                places = generator.integers(fewest, most + 1, texts)
                skill = generator.beta(share * (1 / alike - 1), (1 - share) * (1 / alike - 1), texts)
                found = generator.binomial(places, skill)
                ours = share_interval(found.astype(float), places.astype(float))
                plain = wilson_interval(int(found.sum()), int(places.sum()))
                held += [low <= share <= high for low, high in (ours, plain)]
            cells = (f"{part:.3f}".removeprefix("0") for part in held / sets)
            yield f"| {texts} | {fewest} to {most} | {share:.2g} | {alike} | {' | '.join(cells)} |"


def _shares(found: Mapping[str, list[tuple[Floats, NDArray[np.bool_]]]]) -> dict[str, tuple[float, float]]:
    """Returns, for each method, how many of its intervals hold the truth, and how many it gave."""
    result = {}
    for method, parts in found.items():
        holds, given = (np.concatenate(part) for part in zip(*parts, strict=True))
        result[method] = float(holds[given].mean()) if given.any() else math.nan, float(given.mean())
    return result


def _row(items: int, name: str, methods: Sequence[str], shares: Mapping[str, tuple[float, float]]) -> str:
    cells = (f"{shares[method][0]:.3f}".removeprefix("0") for method in methods)
    return f"| {items} | {name} | {' | '.join(cells)} | {shares['the service'][1]:.0%} |"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks intervals", description=__doc__)
    parser.add_argument("--sets", type=int, default=10_000, help="data sets for each cell (10000)")
    parser.add_argument(
        "--only", choices=("means", "ratios", "shares", "vectors", "recovery", "timings"), help="one of the tables (all)"
    )
    options = parser.parse_args(arguments)
    for name, lines in (
        ("means", table(options.sets)),
        ("ratios", ratio_table(options.sets)),
        ("shares", share_table(options.sets)),
        ("vectors", vector_table(options.sets)),
        ("recovery", recovery_table(options.sets)),
        ("timings", timing_table(options.sets)),
    ):
        if options.only in (None, name):
            for line in lines:
                print(line, flush=True)
            print()
    return 0
