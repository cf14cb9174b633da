"""Ratios of timings whose truth is known: intervals cover it, equal models are not told apart, drift does no harm."""

import math
from itertools import product

import numpy as np
import pytest
from bertscope_service.analyses.intervals import NoInterval
from bertscope_service.analyses.metrics import Bootstrap
from bertscope_service.benchmark.timings import MAX_GRID, Ratio, Timings, Verdict, interval_of_mean, ratio_of_medians
from numpy.typing import NDArray

FEW = Bootstrap(resamples=300, seed=1)


def even(rounds: int, generator: np.random.Generator) -> NDArray[np.float64]:
    """A quiet machine."""
    return np.ones(rounds)


def drifting(rounds: int, generator: np.random.Generator) -> NDArray[np.float64]:
    """A machine that gets three times as slow, in fits and starts."""
    return np.exp(np.linspace(0, np.log(3), rounds) + 0.1 * generator.standard_normal(rounds))


def timings(
    median: float, runs: int, machine: NDArray[np.float64], generator: np.random.Generator, tail: float = 0.0
) -> Timings:
    """Some runs in each round; `tail` is the part of them that take very long (Pareto: their variance is infinite)."""
    shape = (len(machine), runs)
    slow = (generator.random(shape) < tail) * 5 * generator.pareto(1.2, shape)
    times = median * machine[:, None] * (generator.lognormal(0, 0.1, shape) + slow)
    return Timings.of(times.tolist())


def test_equal_models_are_not_told_apart_and_different_ones_are() -> None:
    verdicts: dict[float, list[Verdict]] = {}
    for truth in (1.0, 2.0, 0.5):
        for seed in range(20):
            generator = np.random.default_rng(seed)
            pace = drifting(20, generator)
            ratio = ratio_of_medians(timings(truth, 2, pace, generator), timings(1.0, 2, pace, generator), FEW)
            verdicts.setdefault(truth, []).append(ratio.verdict)
    assert verdicts[1.0].count(Verdict.NOT_DISTINGUISHABLE) >= 17
    assert set(verdicts[2.0]) == {Verdict.ABOVE}
    assert set(verdicts[0.5]) == {Verdict.BELOW}


def test_the_same_bootstrap_gives_the_same_interval_and_another_seed_another() -> None:
    generator = np.random.default_rng(5)
    both = timings(1.2, 3, even(20, generator), generator), timings(1.0, 3, even(20, generator), generator)
    first, again, other = (ratio_of_medians(*both, Bootstrap(300, seed)) for seed in (1, 1, 2))
    assert first == again != other
    scaled = ratio_of_medians(*both, FEW, factor=4.0)
    assert [scaled.value, scaled.low, scaled.high] == pytest.approx([4 * first.value, 4 * first.low, 4 * first.high])


def test_resampled_medians_are_those_of_numpy() -> None:
    """Of so few rounds every resample is drawn, and the widest interval is from the least to the greatest ratio."""
    rounds = 3
    generator = np.random.default_rng(rounds)
    times = [[generator.lognormal(size=generator.integers(1, 5)).tolist() for _ in range(rounds)] for _ in range(2)]
    ratio = ratio_of_medians(Timings.of(times[0]), Timings.of(times[1]), Bootstrap(5000, 0, 0.999))
    drawn = [
        np.median(np.concatenate([times[0][place] for place in pick]))
        / np.median(np.concatenate([times[1][place] for place in pick]))
        for pick in product(range(rounds), repeat=rounds)
    ]
    assert (ratio.low, ratio.high) == pytest.approx((min(drawn), max(drawn)))


def test_a_great_many_times_are_counted_on_a_grid() -> None:
    """Whose medians differ from the exact ones by less than the interval is wide."""
    generator = np.random.default_rng(1)
    rounds = [generator.lognormal(0, 0.2, 200).tolist() for _ in range(100)]
    assert sum(map(len, rounds)) > 4 * MAX_GRID
    ratio = ratio_of_medians(Timings.of(rounds), Timings.of([[1.0]] * 100), FEW)
    assert ratio.low <= 1.0 <= ratio.high
    assert ratio.high / ratio.low < 1.02


def test_a_single_round_says_nothing() -> None:
    ratio = ratio_of_medians(Timings.of([[4.0, 4.0]]), Timings.of([[1.0]]), FEW)
    assert ratio == Ratio(4.0, 0.0, math.inf, None, NoInterval.TOO_FEW_ITEMS)
    assert ratio.verdict is Verdict.NOT_DISTINGUISHABLE


def test_percentiles_are_over_all_runs() -> None:
    times = Timings.of([[float(number)] for number in range(1, 102)])
    assert times.percentiles((50, 90, 95, 99)) == [51.0, 91.0, 96.0, 100.0]
    assert times.median == 51.0


def test_means_over_places_of_texts() -> None:
    """Texts are what is drawn: ten of one place weigh as much as one of ten."""
    totals, sizes = np.array([10.0] * 20 + [0.0] * 20), np.array([10.0] * 20 + [1.0] * 20)
    low, high = interval_of_mean(totals, sizes, FEW)
    assert low < 200 / 220 < high
    assert interval_of_mean(sizes, sizes, FEW) == (1.0, 1.0)
