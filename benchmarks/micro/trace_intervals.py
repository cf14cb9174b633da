"""Measures how often the intervals of a trace hold, on shares of many real pairs.

`python -m benchmarks trace-intervals` asks a server with the embedded model for the shares of states at three positions, in
pairs of a singular and a plural subject. Samples of 5 to 40 of these pairs, drawn with replacement, are then asked for their
interval, which should hold the mean over all.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Sequence

import bertscope
import numpy as np
from bertscope.values.intervals import mean_intervals
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from benchmarks.lib.serving import serving

NOUNS = (
    *("key", "dog", "car", "book", "friend", "teacher", "boy", "girl", "house", "river", "song", "door", "bird", "horse"),
    *("doctor", "player", "letter", "window", "ship", "tree"),
)
BETWEEN = ("to the old cabinet", "near the big house", "of the young man", "behind the tall wall", "with the small box")
ENDS = ("on the table", "in the room", "every day", "at the school")
SIZES = (5, 10, 20, 40)
LEAST_SPREAD = 0.02
"""The standard deviation under which a place does nothing in any pair."""


def shares(target: str, count: int) -> NDArray[np.float64]:
    """Returns the shares of each pair whose texts have as many tokens, at "the", the subject and the mask: [pairs, places]."""
    texts = list(itertools.product(NOUNS, BETWEEN, ENDS))
    np.random.default_rng(0).shuffle(texts)
    found = []
    with bertscope.Client(target, timeout=600) as client:
        for noun, between, end in texts[:count]:
            clean, corrupted = f"The {noun}s {between} [MASK] {end}.", f"The {noun} {between} [MASK] {end}."
            try:
                trace = client.trace(clean, corrupted, bertscope.Answer("are", "is"))
            except bertscope.InvalidArgument:  # cut into another number of pieces
                continue
            found.append(trace.recovery[:, [1, 2, trace.names.index("[MASK]")]].ravel())
    values = np.array(found)
    return values[~np.isnan(values).any(axis=1)]


def coverage(values: NDArray[np.float64], size: int, samples: int) -> float:
    """Returns the share of intervals of samples of so many pairs that hold the mean over all pairs."""
    draw, truth, held = np.random.default_rng(size), values.mean(axis=0), list[bool]()
    moving = np.flatnonzero(values.std(axis=0) > LEAST_SPREAD)
    for _ in range(samples):
        sample = values[draw.integers(0, len(values), size)]
        intervals = mean_intervals(sample.sum(axis=0), (sample**2).sum(axis=0), size, confidence=0.95) or ()
        held += [intervals[place].low <= truth[place] <= intervals[place].high for place in moving]
    return float(np.mean(held))


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=160)
    parser.add_argument("--samples", type=int, default=1000)
    options = parser.parse_args(arguments)
    with serving() as server:
        values = shares(server.target, options.pairs)
    table = Table("pairs in a sample", "95 % intervals that hold", title=f"{len(values)} pairs, {values.shape[1]} places")
    for size in SIZES:
        table.add_row(str(size), f"{coverage(values, size, options.samples):.1%}")
    Console().print(table)
    return 0
