"""Measures the coverage of intervals of what a distillation brought back and of ratios of median timings, by simulation."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from bertscope_service.analyses.ablation import Bootstrap, Metric
from bertscope_service.benchmark.timings import Timings, ratio_of_medians
from bertscope_service.distillation.recovery import recovery
from numpy.typing import NDArray

Floats = NDArray[np.float64]
MOST_SETS = 400
"""Data sets of a cell at most: each has a bootstrap of its own."""

RATIO = 1.3
RUNS = ((8, (1, 1)), (20, (1, 7)), (60, (3, 1)))
"""Rounds, and the runs of both models in a round."""


def recovery_table(sets: int) -> Iterator[str]:
    """Yields the lines of the table of shares that came back; the true one is a half."""
    sets = min(sets, MOST_SETS)
    yield f"shares that came back, nominal 95 %, {sets} sets each"
    yield f"{'texts':>6} {'without interval':>17} {'coverage':>9}"
    for texts in (30, 60, 200, 500):
        generator = np.random.default_rng(texts)
        found = [recovery(Metric.ACCURACY, *_changes(generator, texts)) for _ in range(sets)]
        ends = [(one.low, one.high) for one in found if one.low is not None and one.high is not None]
        yield f"{texts:6} {sets - len(ends):17} {np.mean([low <= 0.5 <= high for low, high in ends]):9.3f}"


def _changes(generator: np.random.Generator, texts: int) -> tuple[Floats, Floats]:
    """Draws what was lost and what came back of each text: 1 to 12 predictions, of different difficulty and partly alike in the
    teacher, the untrained and the trained student."""
    sizes, easy = generator.integers(1, 13, texts), generator.beta(2, 2, texts)
    text = np.repeat(np.arange(texts), sizes)
    together, alone = generator.random(len(text)), generator.random((3, len(text)))
    alike = generator.random(len(text)) < 0.6
    untrained, student, teacher = (
        np.bincount(text, np.where(alike, together, own) < 1.8 * share * easy[text])
        for share, own in zip((0.2, 0.35, 0.5), alone, strict=True)
    )
    return (teacher - untrained).astype(np.float64), (student - untrained).astype(np.float64)


def timing_table(sets: int) -> Iterator[str]:
    """Yields the lines of the table of ratios of median timings: on an even machine and on one that gets slower, with and
    without runs that take very long."""
    sets = min(sets, MOST_SETS)
    yield f"ratios of median timings, nominal 95 %, {sets} sets each"
    yield f"{'rounds':>6} {'runs':>6}  {'machine':<10} {'long runs':>9} {'coverage':>9}"
    for rounds, runs in RUNS:
        for drift in (False, True):
            for tail in (0.0, 0.05):
                covered = 0
                for seed in range(sets):
                    generator = np.random.default_rng([seed, rounds])
                    noise = 0.1 * generator.standard_normal(rounds)
                    pace = np.exp(np.linspace(0, np.log(3), rounds) + noise) if drift else np.ones(rounds)
                    slow, fast = (_timings(*each, pace, generator, tail) for each in zip((RATIO, 1.0), runs, strict=True))
                    ratio = ratio_of_medians(slow, fast, Bootstrap(300, 1))
                    covered += ratio.low is not None and ratio.high is not None and ratio.low <= RATIO <= ratio.high
                name = "drifting" if drift else "even"
                yield f"{rounds:6} {runs[0]:>4},{runs[1]}  {name:<10} {tail:9.2f} {covered / sets:9.3f}"


def _timings(median: float, runs: int, pace: Floats, generator: np.random.Generator, tail: float) -> Timings:
    """Draws some runs of each round; `tail` is the part of them that take very long (Pareto: their variance is infinite)."""
    shape = (len(pace), runs)
    slow = (generator.random(shape) < tail) * 5 * generator.pareto(1.2, shape)
    return Timings.of((median * pace[:, None] * (generator.lognormal(0, 0.1, shape) + slow)).tolist())
