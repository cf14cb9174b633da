"""Measures the cost of observability: traces of all calls, of one in a hundred and of none, and a scrape each second."""

from __future__ import annotations

import contextlib
import threading
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from statistics import median
from typing import Any

import bertscope
import grpc

from benchmarks.lib.measure import Claim, seconds
from benchmarks.lib.serving import Running, serving

TEXT = "Paris is the capital of [MASK]."
CALLS = 200
CALLERS = 8
SCRAPE_SECONDS = 1.0
"""Fifteen times as often as Prometheus scrapes by default."""


def claims(rounds: int) -> Iterator[Claim]:
    """Measures servers that differ in one flag, in turn: CALLS calls one after the other, and by CALLERS callers at a time."""
    with contextlib.ExitStack() as stack:
        endpoint = stack.enter_context(_sink())
        plain = stack.enter_context(serving())
        traced = ("--trace-endpoint", endpoint)
        sides = {
            "traced, all calls": (stack.enter_context(serving(*traced)), "at most 1.3"),
            "traced, 1 call in 100": (stack.enter_context(serving(*traced, "--trace-ratio", "0.01")), "at most 1.05"),
            "scraped each second": (plain, "at most 1.05"),
        }
        for name, (server, goal) in sides.items():
            alone, together = _Costs(), _Costs()
            for _ in range(rounds + 1):
                for costs, ask in ((alone, _one_by_one), (together, _together)):
                    quiet = ask(plain)
                    with _scraping(plain) if server is plain else contextlib.nullcontext():
                        costs.add(quiet, ask(server))
            yield alone.claim(f"one small call, {name} / not", goal, "ms", CALLS / 1000)
            yield together.claim(f"{CALLS} calls of each of {CALLERS} callers, {name} / not", goal, "s", 1.0)


class _Costs:
    """Times of rounds without and with; the first round warms both sides up."""

    def __init__(self) -> None:
        self._pairs: list[tuple[float, float]] = []

    def add(self, quiet: float, watched: float) -> None:
        self._pairs.append((quiet, watched))

    def claim(self, what: str, goal: str, unit: str, scale: float) -> Claim:
        quiet, watched = zip(*self._pairs[1:], strict=True)
        ratios = [busy / idle for idle, busy in self._pairs[1:]]
        ours, theirs = (f"{median(side) / scale:.3f} {unit}" for side in (watched, quiet))
        return Claim(what, ours, theirs, median(ratios), (min(ratios), max(ratios)), goal)


def _one_by_one(server: Running) -> float:
    """Returns the seconds of CALLS calls, one after the other."""
    with bertscope.Client(server.target) as client:
        client.fill_mask(TEXT)
        return seconds(lambda: [client.fill_mask(TEXT) for _ in range(CALLS)])


def _together(server: Running) -> float:
    """Returns the seconds of CALLS calls by each of CALLERS callers."""
    with contextlib.ExitStack() as stack, ThreadPoolExecutor(CALLERS) as threads:
        clients = [stack.enter_context(bertscope.Client(server.target)) for _ in range(CALLERS)]
        list(threads.map(lambda client: client.fill_mask(TEXT), clients))
        return seconds(lambda: list(threads.map(_ask_on, clients)))


def _ask_on(client: bertscope.Client) -> None:
    for _ in range(CALLS):
        client.fill_mask(TEXT)


@contextlib.contextmanager
def _scraping(server: Running) -> Iterator[None]:
    """Scrapes the metrics each SCRAPE_SECONDS, at least once."""
    done = threading.Event()

    def scrape() -> None:
        while True:
            with urllib.request.urlopen(server.metrics_url, timeout=10) as page:
                page.read()
            if done.wait(SCRAPE_SECONDS):
                return

    with ThreadPoolExecutor(1) as thread:
        scraping = thread.submit(scrape)
        try:
            yield
        finally:
            done.set()
        scraping.result()


@contextlib.contextmanager
def _sink() -> Iterator[str]:
    """Runs a collector that discards spans; yields its endpoint. An empty reply says that all were accepted."""

    def export(request: bytes, context: Any) -> bytes:
        return b""

    handle: Any = grpc.unary_unary_rpc_method_handler  # typed without bytes
    service = "opentelemetry.proto.collector.trace.v1.TraceService"
    handler = grpc.method_handlers_generic_handler(service, {"Export": handle(export)})
    server = grpc.server(ThreadPoolExecutor(1), handlers=[handler])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.stop(0).wait()
