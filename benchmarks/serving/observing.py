"""Measures the cost of observability: traces of all calls, of one in a hundred and of none, and a scrape each second."""

from __future__ import annotations

import contextlib
import threading
import urllib.request
from argparse import Namespace
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import bertscope
import grpc

from benchmarks.lib.background import TEXT, beside
from benchmarks.lib.measure import Claim, milliseconds, seconds, share
from benchmarks.lib.options import ROUNDS
from benchmarks.lib.serving import Running, serving

OPTIONS = (ROUNDS,)
CALLS = 200
CALLERS = 8
SCRAPE_SECONDS = 1.0
"""Fifteen times as often as Prometheus scrapes by default."""


def claims(options: Namespace) -> Iterator[Claim]:
    """Measures servers that differ in one flag, in turn: CALLS calls one after the other, and by CALLERS callers at a time."""
    with contextlib.ExitStack() as stack:
        traced = ("--trace-endpoint", stack.enter_context(_sink()))
        plain = stack.enter_context(serving())
        sides = {
            "traced, all calls": (stack.enter_context(serving(*traced)), "at most 1.3"),
            "traced, 1 call in 100": (stack.enter_context(serving(*traced, "--trace-ratio", "0.01")), "at most 1.05"),
            "scraped each second": (plain, "at most 1.05"),
        }
        for name, (server, goal) in sides.items():
            for callers in (1, CALLERS):
                found = []
                for _ in range(options.rounds + 1):
                    quiet = _ask(plain, callers)
                    with beside(partial(_scrape, plain)) if server is plain else contextlib.nullcontext():
                        found.append((_ask(server, callers), quiet))
                # The first round warmed both sides up.
                watched, quietly = zip(*found[1:], strict=True)
                yield share(f"{CALLS} calls of each of {callers} callers, {name} / not", watched, quietly, milliseconds, goal)


def _ask(server: Running, callers: int) -> float:
    """Returns the seconds of CALLS calls by each of some callers."""
    with contextlib.ExitStack() as stack, ThreadPoolExecutor(callers) as threads:
        clients = [stack.enter_context(bertscope.Client(server.target)) for _ in range(callers)]
        list(threads.map(lambda client: client.fill_mask(TEXT), clients))
        return seconds(lambda: list(threads.map(_ask_on, clients)))


def _ask_on(client: bertscope.Client) -> None:
    for _ in range(CALLS):
        client.fill_mask(TEXT)


def _scrape(server: Running, begun: threading.Event, over: threading.Event) -> None:
    """Scrapes the metrics each SCRAPE_SECONDS, at least once."""
    begun.set()
    while True:
        with urllib.request.urlopen(server.metrics_url, timeout=10) as page:
            page.read()
        if over.wait(SCRAPE_SECONDS):
            return


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
