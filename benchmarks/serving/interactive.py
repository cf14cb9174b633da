"""Measures what a sweep costs other callers: the client's latency of a small cloze call, with the server idle and with a
sweep."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from statistics import median

import bertscope
import numpy as np

from benchmarks.lib.measure import Claim, seconds
from benchmarks.lib.serving import Running, serving
from benchmarks.lib.texts import cloze_texts

CALLS = 100
ALONE = 6
"""The number of effects measured before the calls begin, to learn how long a batch of the sweep takes."""

TEXT = "Paris is the capital of [MASK]."


def claims(rounds: int) -> Iterator[Claim]:
    """Measures 95th percentiles of CALLS calls in a row, both sides in turn; the sweep is over all heads of the same model."""
    with serving() as server, bertscope.Client(server.target) as client:
        for _ in range(CALLS):
            client.fill_mask(TEXT)
        idle, loaded, batches = [], [], []
        for _ in range(rounds):
            idle.append(_p95(client))
            with _Sweeping(server) as sweeping:
                loaded.append(_p95(client))
            batches.append(sweeping.batch_seconds)
        allowed = [2 * quiet + batch for quiet, batch in zip(idle, batches, strict=True)]
        ratios = [busy / most for busy, most in zip(loaded, allowed, strict=True)]
        what = (
            f"p95 of a small cloze call with a sweep running / twice its idle p95 ({median(idle) * 1000:.1f} ms) plus one "
            f"batch of the sweep ({median(batches) * 1000:.0f} ms)"
        )
        ours, theirs = (f"{median(side) * 1000:.1f} ms" for side in (loaded, allowed))
        yield Claim(what, ours, theirs, median(ratios), (min(ratios), max(ratios)), "at most 1")


def _p95(client: bertscope.Client) -> float:
    return float(np.percentile([seconds(lambda: client.fill_mask(TEXT)) for _ in range(CALLS)], 95))


class _Sweeping:
    """A running sweep, from another connection, while this is entered; `batch_seconds` is its mean batch."""

    def __init__(self, server: Running) -> None:
        self._server = server
        self._running = threading.Event()
        self._thread = threading.Thread(target=self._sweep)
        self._stop = False
        self.batch_seconds = 0.0

    def __enter__(self) -> _Sweeping:
        self._thread.start()
        self._running.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop = True
        self._thread.join()

    def _sweep(self) -> None:
        with bertscope.Client(self._server.target) as client, client.sweep_heads(bertscope.Divergence(cloze_texts())) as sweep:
            before, count = self._batches()
            for number, _ in enumerate(sweep):
                if number == ALONE:
                    spent, batches = self._batches()
                    self.batch_seconds = (spent - before) / (batches - count)
                    self._running.set()
                if self._stop:
                    break

    def _batches(self) -> tuple[float, float]:
        name = "bertscope_batch_seconds"
        return self._server.metric(f"{name}_sum"), self._server.metric(f"{name}_count")
