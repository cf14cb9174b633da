"""Measures what a sweep costs other callers: the client's latency of a small cloze call, with the server idle and with a
sweep."""

from __future__ import annotations

import threading
from argparse import Namespace
from collections.abc import Iterator
from functools import partial
from statistics import median

import bertscope
import numpy as np

from benchmarks.lib.background import TEXT, beside
from benchmarks.lib.measure import Claim, milliseconds, seconds, share
from benchmarks.lib.options import ROUNDS
from benchmarks.lib.serving import Running, serving
from benchmarks.lib.texts import cloze_texts

OPTIONS = (ROUNDS,)
CALLS = 100
ALONE = 6
"""The number of effects measured before the calls begin, to learn how long a batch of the sweep takes."""


def claims(options: Namespace) -> Iterator[Claim]:
    """Measures 95th percentiles of calls in a row, both sides in turn; the sweep is over all heads of the same model."""
    with serving() as server, bertscope.Client(server.target) as client:
        _p95(client)
        idle, loaded, batches = list[float](), list[float](), list[float]()
        for _ in range(options.rounds):
            idle.append(_p95(client))
            with beside(partial(_sweep, server, batches)):
                loaded.append(_p95(client))
    allowed = [2 * quiet + batch for quiet, batch in zip(idle, batches, strict=True)]
    quiet, batch = milliseconds(median(idle)), milliseconds(median(batches))
    what = (
        f"p95 of a small cloze call with a sweep running / twice its idle p95 ({quiet}) plus one batch of the sweep ({batch})"
    )
    yield share(what, loaded, allowed, milliseconds, "at most 1")


def _p95(client: bertscope.Client) -> float:
    return float(np.percentile([seconds(lambda: client.fill_mask(TEXT)) for _ in range(CALLS)], 95))


def _sweep(server: Running, batches: list[float], begun: threading.Event, over: threading.Event) -> None:
    """Sweeps, from another connection; adds the mean seconds of its batches to `batches`."""
    with bertscope.Client(server.target) as client, client.sweep_heads(bertscope.Divergence(cloze_texts())) as sweep:
        before = server.batches()
        for number, _ in enumerate(sweep):
            if number == ALONE:
                spent, count = (now - then for now, then in zip(server.batches(), before, strict=True))
                batches.append(spent / count)
                begun.set()
            if over.is_set():
                break
