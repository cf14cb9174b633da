"""Measures how soon a server of the embedded model takes calls after its start, and how soon it answers them.

`python -m benchmarks startup` prints the seconds from the start of the process. *Bound*: a connection is accepted; health says
NOT_SERVING, and every method UNAVAILABLE. *Serving*: health says SERVING.
"""

from __future__ import annotations

import argparse
import json
import socket
import statistics
import subprocess
import sys
import time

import bertscope

LIMIT_SECONDS = 120.0
LOOK_SECONDS = 0.01
COLUMNS = ("bound", "serving")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks startup", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="starts (5), after one that is not counted")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    options = parser.parse_args(arguments)
    _start()  # exports the model if it has to, and reads the libraries from disk
    found = [_start() for _ in range(options.rounds)]
    medians = {name: statistics.median(times) for name, times in zip(COLUMNS, zip(*found, strict=True), strict=True)}
    if options.json:
        print(json.dumps({"seconds": [dict(zip(COLUMNS, times, strict=True)) for times in found], "medians": medians}))
        return 0
    print(f"| seconds from the start of the process, median of {options.rounds} | |\n|---|---|")
    for name, seconds in medians.items():
        print(f"| {name} | {seconds:.2f} |")
    return 0


def _start() -> tuple[float, float]:
    """Returns the seconds until a server is bound, and until it serves."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "bertscope_service", "--port", str(port), "--metrics-port", "0", "--log-level", "error"]
    began = time.monotonic()
    process = subprocess.Popen(command)
    try:
        _wait_until_bound(process, port, began)
        bound = time.monotonic() - began
        with bertscope.Client(f"127.0.0.1:{port}") as client:
            client.wait_until_serving(LIMIT_SECONDS)
        return bound, time.monotonic() - began
    finally:
        process.terminate()
        process.wait()


def _wait_until_bound(process: subprocess.Popen[bytes], port: int, began: float) -> None:
    while True:
        if process.poll() is not None:
            raise RuntimeError(f"the server ended with status {process.returncode}")
        if time.monotonic() - began > LIMIT_SECONDS:
            raise TimeoutError(f"the server was not bound within {LIMIT_SECONDS:g} s")
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(LOOK_SECONDS)
        else:
            return
