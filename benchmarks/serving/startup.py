"""Measures how soon a server of the embedded model takes calls after its start, and how soon it answers them.

Seconds from the start of the process. *Bound*: a connection is accepted; health says NOT_SERVING, and every method UNAVAILABLE.
*Serving*: health says SERVING.
"""

from __future__ import annotations

from argparse import Namespace
from statistics import median

from benchmarks.lib.options import ROUNDS
from benchmarks.lib.report import Report, Table, span
from benchmarks.lib.serving import serving

OPTIONS = (ROUNDS,)


def report(options: Namespace) -> Report:
    """Starts a server in each round, after one start that is not counted: it exports the model if it has to, and reads the
    libraries from disk."""
    found: dict[str, list[float]] = {"bound": [], "serving": []}
    for number in range(options.rounds + 1):
        with serving() as server:
            if number:
                found["bound"].append(server.bound_seconds)
                found["serving"].append(server.serving_seconds)
    rows = [(name, f"{median(times):.2f}", span(times)) for name, times in found.items()]
    title = f"Seconds from the start of the process, median of {options.rounds}"
    return Report([Table(title, ("a server is", "s", "spread"), rows)], {"seconds": found})
