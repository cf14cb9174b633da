"""Measures how often the intervals of vectors' agreement hold, by simulation; see `python -m benchmarks intervals`."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from bertscope_service.analyses.ablation import Bootstrap
from bertscope_service.benchmark.timings import interval_of_mean
from bertscope_service.benchmark.vectors import Compared
from numpy.typing import NDArray

Floats = NDArray[np.float64]
SIZE, NEAREST, RESAMPLES = 16, 5, 400
TEXTS, NOISE = (10, 20, 50, 150), (0.1, 0.5, 2.0)


def _unit(vectors: Floats) -> Floats:
    lengths: Floats = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / lengths


def _draw(generator: np.random.Generator, texts: int, noise: float) -> tuple[Floats, Floats]:
    """Draws vectors in a cone, as those of texts are, and the same with noise that is larger for some texts."""
    first = 1 + generator.normal(size=(texts, SIZE))
    moved = noise * np.exp(0.5 * generator.normal(size=(texts, 1))) * generator.normal(size=first.shape)
    return _unit(first), _unit(first + moved)


def vector_table(sets: int) -> Iterator[str]:
    """Yields lines of a Markdown table: how often intervals hold the mean of all data sets, and how often those of the
    correlation would if texts were taken for independent; and how much longer those of neighbours are than 4 standard errors.
    """
    yield "| texts | noise | cosine | neighbours | its length | rank correlation | texts taken for independent |"
    yield "|---|---|---|---|---|---|---|"
    for noise in NOISE:
        for texts in TEXTS:
            values, ends = [], []
            for seed in range(sets):
                first, second = _draw(np.random.default_rng([seed, texts, int(10 * noise)]), texts, noise)
                compared = Compared(first, second, NEAREST)
                compared.add(range(texts))
                bootstrap = Bootstrap(RESAMPLES, seed)
                found = compared.agreement(bootstrap)
                plain = interval_of_mean(compared.correlations, np.ones(texts), bootstrap, -1.0, 1.0)
                means = [mean for mean in (found.cosine, found.neighbours, found.rank_correlation) if mean is not None]
                values.append([mean.value for mean in means] + [found.rank_correlation.value])
                ends.append([(mean.low, mean.high) for mean in means] + [plain])
            truth, spread = np.mean(values, axis=0), np.std(values, axis=0)
            low, high = np.moveaxis(np.array(ends), 2, 0)
            held = ((low <= truth) & (truth <= high)).mean(axis=0)
            cosine, neighbours, ranks, plainly = (f"{share:.3f}".removeprefix("0") for share in held)
            length = (high - low).mean(axis=0)[1] / (4 * spread[1])
            yield f"| {texts} | {noise:g} | {cosine} | {neighbours} | {length:.1f} | {ranks} | {plainly} |"
