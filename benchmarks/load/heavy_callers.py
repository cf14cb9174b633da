"""Measures how long one-text calls wait beside callers of many slow texts, and what the bound on a batch's time costs the
latter.

Two servers, one of which bounds interactive batches by their tokens only, are called in turn. Each caller is a connection.
"""

from __future__ import annotations

import shlex
import time
from argparse import Namespace
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from statistics import median

import bertscope
import numpy as np
from bertscope.v1 import cloze_pb2

from benchmarks.lib.background import OWN_CONNECTION, TEXT, Ask, Callers
from benchmarks.lib.calls import FILL_MASK
from benchmarks.lib.cores import available, on_cores
from benchmarks.lib.options import ROUNDS, flag, option, seconds, serve
from benchmarks.lib.report import Report, Table, span
from benchmarks.lib.serving import Running, serving
from benchmarks.lib.texts import bert_base, texts_of_lengths
from benchmarks.load.traffic import ClosedLoop, OpenLoop, Traffic, generate, poisson

OPTIONS = (
    ROUNDS,
    seconds(8.0, "counted in each round, of each side"),
    serve("--threads 1"),
    option("--callers", "heavy ones", 1),
    option("--texts", "in a call of theirs", 64),
    option("--tokens", "of each text, [CLS] and [SEP] included", 252),
    flag("--one-mask", "in each text of theirs, in place of nothing but masks"),
    flag("--bert-base", "random weights in that shape, in place of the embedded model"),
)
SHORT_TOKENS = 9
SHORT_CALLERS = 4
CALLS_PER_SECOND = 4.0
"""The rate of all one-text callers together, when calls arrive at random."""

LOOP, RANDOM, IDLE = "in a loop", "at random", "idle, in a loop"
WARM_UP_SECONDS = 2.0
PATIENCE_SECONDS = 600.0
MODULES = {"bound": "bertscope_service", "without": "benchmarks.load.unbounded"}


@dataclass(frozen=True, slots=True)
class Round:
    """The milliseconds of each one-text call, and the texts per second of the heavy callers."""

    waits: Sequence[float]
    rate: float = 0.0


def report(options: Namespace) -> Report:
    """Returns the waits of one-text callers by (their arrivals, server), and the heavy callers' rates with the bound and
    without."""
    found = defaultdict[tuple[str, str], list[Round]](list)
    with ExitStack() as stack:
        flags = shlex.split(options.serve)
        if options.bert_base:
            flags += ["--model", f"bert-base={stack.enter_context(bert_base())}"]
        cores = available()
        with on_cores(cores[:1]):
            servers = {side: stack.enter_context(serving(*flags, module=module)) for side, module in MODULES.items()}
        stack.enter_context(on_cores(cores[1:2]))
        for server in servers.values():
            _one_text_calls(server, LOOP, WARM_UP_SECONDS)
            _beside(server, options, LOOP, WARM_UP_SECONDS)
        for _ in range(options.rounds):
            for side, server in servers.items():
                found[IDLE, side].append(Round(_one_text_calls(server, LOOP, options.seconds / 4)))
            for arrivals in (LOOP, RANDOM):
                for side, server in servers.items():
                    found[arrivals, side].append(_beside(server, options, arrivals, options.seconds))
    data = {f"{arrivals}, {side}": [(list(one.waits), one.rate) for one in parts] for (arrivals, side), parts in found.items()}
    return Report([_table(found, options.rounds)], data, [_cost(found, arrivals) for arrivals in (LOOP, RANDOM)])


def _beside(server: Running, options: Namespace, arrivals: str, lasting: float) -> Round:
    """Makes one-text calls while heavy callers never pause; counted from when the first of their texts have run."""
    tokens = options.tokens
    texts = [" ".join(["[MASK]"] * (tokens - 2))] if not options.one_mask else texts_of_lengths([tokens], mask=True)

    @contextmanager
    def caller() -> Iterator[Ask]:
        with bertscope.Client(server.target, options=[OWN_CONNECTION], timeout=PATIENCE_SECONDS) as client:
            yield lambda: client.fill_mask(texts * options.texts)

    idle, _ = server.tokens()
    with Callers([caller] * options.callers) as heavy:
        while server.tokens()[0] == idle:
            time.sleep(0.05)
        before, began = server.tokens()[0], time.perf_counter()
        waits = _one_text_calls(server, arrivals, lasting)
        ran, taken = server.tokens()[0] - before, time.perf_counter() - began
    if heavy.errors:
        raise RuntimeError(f"heavy calls failed: {heavy.errors}")
    return Round(waits, (ran - SHORT_TOKENS * len(waits)) / tokens / taken)


def _one_text_calls(server: Running, arrivals: str, lasting: float) -> list[float]:
    """Returns the milliseconds of each one-text call: of callers that never pause, or of a Poisson process."""
    request = cloze_pb2.FillMaskRequest(texts=[TEXT], top_k=5).SerializeToString()
    common = Traffic(server.target, server.process.pid, None, FILL_MASK, [request], SHORT_CALLERS, 0.0, lasting)
    traffic: OpenLoop | ClosedLoop
    if arrivals == RANDOM:
        drawn = poisson(CALLS_PER_SECOND, lasting, SHORT_CALLERS, 1, np.random.default_rng(5))
        traffic = OpenLoop(**common.fields(), arrivals=drawn, deadline=PATIENCE_SECONDS, most_in_flight=4096)
    else:
        traffic = ClosedLoop(**common.fields(), callers=SHORT_CALLERS, deadline=PATIENCE_SECONDS)
    record = generate(traffic)
    if record.codes.any():
        raise RuntimeError(f"one-text calls ended with the codes {sorted(set(record.codes.tolist()))}")
    found: list[float] = (1000 * (record.done - record.arrived)).tolist()
    return found


def _table(found: dict[tuple[str, str], list[Round]], rounds: int) -> Table:
    title = f"{SHORT_CALLERS} one-text callers; medians of {rounds} rounds, servers in turn on one core, callers on another"
    headings = ("one-text callers", "server", "calls", "p50 ms", "p95 ms", "p99 ms", "heavy callers, texts/s")
    rows = []
    for (arrivals, side), parts in found.items():
        percentiles = np.percentile([np.percentile(part.waits, (50, 95, 99)) for part in parts], (50, 0, 100), axis=0)
        cells = [f"{middle:.0f} ({low:.0f} to {high:.0f})" for middle, low, high in percentiles.T]
        rates = [part.rate for part in parts]
        rate = f"{median(rates):.2f} ({span(rates)})" if max(rates) else ""
        rows.append((arrivals, side, str(sum(len(part.waits) for part in parts)), *cells, rate))
    return Table(title, headings, rows)


def _cost(found: dict[tuple[str, str], list[Round]], arrivals: str) -> str:
    pairs = zip(found[arrivals, "bound"], found[arrivals, "without"], strict=True)
    ratios = [ours.rate / theirs.rate for ours, theirs in pairs]
    what = f"texts/s of heavy callers, with the bound / without, one-text callers {arrivals}"
    return f"{what}: {median(ratios):.2f} ({span(ratios)})"
