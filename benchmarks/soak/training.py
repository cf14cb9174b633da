"""Measures small calls beside heavy ones, how soon cancelled work ends, and how soon a busy server stops.

One server hosts the embedded model in both runtimes. One caller for each of them fills a mask again and again, and the answers
are checked. Each heavy call in turn runs beside them and is cancelled after a while; then the server is stopped beside all of
them.
"""

from __future__ import annotations

import asyncio
import shlex
import signal
import sys
import tempfile
import time
from argparse import Namespace
from dataclasses import asdict, dataclass, field
from pathlib import Path

import bertscope
import numpy as np
from bertscope_service.embedded import EMBEDDED_FOLDER

from benchmarks.lib.background import OWN_CONNECTION, TEXT
from benchmarks.lib.options import option, rounds, seconds, serve
from benchmarks.lib.processes import cpu_seconds
from benchmarks.lib.report import Report, Table
from benchmarks.lib.serving import Running, serving
from benchmarks.soak.heavy_work import Heavy, heavy_work, write_tiny_answerer

OPTIONS = (
    rounds(1),
    seconds(10.0, "beside each kind of heavy call"),
    serve(),
    option("--only", "heavy calls whose name contains this", "", metavar="WORD"),
)
RUNTIMES = {"torch": "models/mini", "onnx": "models/mini-onnx"}
PAUSE_SECONDS = 0.02
QUIET_SHARE = 0.15
"""A server that uses less of a core than this between two looks does no work any more."""
LOOK_SECONDS = 0.05
GRACE_SECONDS = 5.0


@dataclass(slots=True)
class Beside:
    """Holds what small calls saw beside one kind of heavy call: milliseconds by runtime, and how many failed or were wrong.

    batch: mean milliseconds of the device's batches meanwhile; ends: seconds from the cancellation until the server was quiet;
    resident: the server's megabytes after that.
    """

    waits: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in RUNTIMES})
    failed: int = 0
    wrong: int = 0
    ended: int = 0
    batch: float = 0.0
    ends: float = 0.0
    resident: float = 0.0


def report(options: Namespace) -> Report:
    """Measures beside each kind of heavy call; a small call that failed or was answered wrongly is a fault."""
    with tempfile.TemporaryDirectory() as name:
        answerer = write_tiny_answerer(Path(name) / "answerer")
        flags = ["--runtime", "torch", "--model", f"mini={EMBEDDED_FOLDER}", "--model", f"answerer={answerer}"]
        flags += ["--cache-folder", name, "--grace-seconds", str(GRACE_SECONDS), *shlex.split(options.serve)]
        with serving(*flags) as server:
            every = heavy_work(server.target, "models/answerer")
            chosen = {kind: one for kind, one in every.items() if options.only in kind}
            found, stopped = asyncio.run(_measure(server, chosen, options.seconds, options.rounds))
    line = f"SIGTERM beside all of them: the process ended after {stopped:.1f} s, {GRACE_SECONDS:g} of them grace"
    faults = [
        f"beside {kind}: {one.failed} calls failed, {one.wrong} were wrong"
        for kind, one in found.items()
        if one.failed + one.wrong
    ]
    data = {kind: asdict(one) for kind, one in found.items()}
    return Report([_table(found)], {"beside": data, "stopped_seconds": stopped}, [line], faults)


async def _measure(server: Running, chosen: dict[str, Heavy], seconds: float, rounds: int) -> tuple[dict[str, Beside], float]:
    async with bertscope.AsyncClient(server.target) as client:
        await client.load_model(RUNTIMES["onnx"], source=str(EMBEDDED_FOLDER), runtime="onnx", timeout=120)
        truths = {name: (await client.fill_mask(TEXT, model=model))[0] for name, model in RUNTIMES.items()}
        found: dict[str, Beside] = {}
        for number in range(rounds):
            for kind, heavy in {"nothing": None, **chosen}.items():
                beside = found.setdefault(kind, Beside())
                await _beside(server, client, truths, heavy, seconds, beside)
                print(f"round {number + 1} of {rounds}: {kind}", file=sys.stderr)
        return found, await _stop(server, list(chosen.values()))


async def _beside(
    server: Running,
    client: bertscope.AsyncClient,
    truths: dict[str, bertscope.FilledText],
    heavy: Heavy | None,
    seconds: float,
    found: Beside,
) -> None:
    """Makes small calls for some seconds beside heavy ones, then cancels these."""
    clients = [bertscope.AsyncClient(server.target, options=[OWN_CONNECTION]) for _ in range(heavy.callers if heavy else 0)]
    tasks = [asyncio.create_task(_again(heavy, one, found)) for one in clients if heavy]
    before = await asyncio.to_thread(server.batches)
    end = time.perf_counter() + seconds
    await asyncio.gather(*(_small_calls(client, name, truths[name], end, found) for name in RUNTIMES))
    taken, count = (after - was for after, was in zip(await asyncio.to_thread(server.batches), before, strict=True))
    found.batch = 1000 * taken / max(1, count)
    for task in tasks:
        task.cancel()
    began = time.perf_counter()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    await _quiet(server)
    found.ends = max(found.ends, time.perf_counter() - began - LOOK_SECONDS)
    found.resident = server.resident_bytes() / 1e6
    for outcome in outcomes:
        if isinstance(outcome, Exception):
            raise outcome
    for one in clients:
        await one.close()


async def _again(heavy: Heavy, client: bertscope.AsyncClient, found: Beside) -> None:
    while True:
        try:
            await heavy.call(client)
        except bertscope.ResourceExhausted:
            await asyncio.sleep(0.5)
        found.ended += 1


async def _small_calls(
    client: bertscope.AsyncClient, name: str, truth: bertscope.FilledText, end: float, found: Beside
) -> None:
    """Fills a mask again and again, and checks the answers."""
    while time.perf_counter() < end:
        began = time.perf_counter()
        try:
            (answer,) = await client.fill_mask(TEXT, model=RUNTIMES[name], timeout=60)
        except bertscope.BertscopeError as error:
            found.failed += 1
            print(f"{name}: {error}", file=sys.stderr)
        else:
            found.waits[name].append(1000 * (time.perf_counter() - began))
            expected, given = ([one.probability for one in text.masks[0].predictions] for text in (truth, answer))
            found.wrong += not np.allclose(expected, given, atol=1e-4)
        await asyncio.sleep(PAUSE_SECONDS)


async def _quiet(server: Running) -> None:
    """Waits until the server uses next to no processor time."""
    before = cpu_seconds(server.process)
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        now = cpu_seconds(server.process)
        if now - before < QUIET_SHARE * LOOK_SECONDS:
            return
        before = now


async def _stop(server: Running, chosen: list[Heavy]) -> float:
    """Stops the server beside all heavy calls. Returns the seconds until its process ends."""
    clients = [
        (heavy, bertscope.AsyncClient(server.target, options=[OWN_CONNECTION]))
        for heavy in chosen
        for _ in range(heavy.callers)
    ]
    tasks = [asyncio.create_task(_again(heavy, client, Beside())) for heavy, client in clients]
    await asyncio.sleep(3)
    began = time.perf_counter()
    server.process.send_signal(signal.SIGTERM)
    await asyncio.to_thread(server.process.wait)
    taken = time.perf_counter() - began
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for _, client in clients:
        await client.close()
    return taken


def _table(found: dict[str, Beside]) -> Table:
    title = "One-text calls beside heavy ones, on the same cores; goal: 2 x p95 beside nothing + a batch; ended: heavy calls"
    headings = ("beside", "runtime", "calls", "p50 ms", "p95 ms", "slowest", "batch ms", "goal p95", "failed", "ended")
    rows = []
    for kind, beside in found.items():
        for name, waits in beside.waits.items():
            times = [f"{value:.0f}" for value in np.percentile(waits or [float("nan")], (50, 95, 100))]
            goal = 2 * float(np.percentile(found["nothing"].waits[name], 95)) + beside.batch
            row = [kind, name, str(len(waits)), *times, f"{beside.batch:.0f}", "" if kind == "nothing" else f"{goal:.0f}"]
            row += [str(beside.failed + beside.wrong), str(beside.ended), f"{beside.ends:.2f}", f"{beside.resident:.0f}"]
            rows.append(row)
    return Table(title, (*headings, "quiet after, s", "server MB"), rows)
