"""`python -m benchmarks soak`: mixed calls, faults and reloads for some minutes, every answer checked, memory watched."""

from __future__ import annotations

import argparse
import asyncio
import json
import shlex
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import bertscope
from bertscope_service.embedded import EMBEDDED_FOLDER
from rich.console import Console

from benchmarks.lib.measure import machine
from benchmarks.lib.options import add_report_options
from benchmarks.lib.serving import Running, serving
from benchmarks.lib.texts import write_small_bert
from benchmarks.soak.asking import Role
from benchmarks.soak.head_questions import write_heads
from benchmarks.soak.making import MAKE_SECONDS, recipes
from benchmarks.soak.report import for_machines, lines, save_memory, table
from benchmarks.soak.run import Outcome, Plan, find_truths, soak

NAMES = {
    Role.EMBEDDED: "models/bertscope-mini",
    Role.ONNX: "models/bertscope-mini-onnx",
    Role.CLASSIFIER: "models/classifier",
    Role.TAGGER: "models/tagger",
    Role.RATER: "models/rater",
    Role.ANSWERER: "models/answerer",
}


def main(arguments: Sequence[str]) -> int:
    """Soaks and prints; exit status 1 if any answer was wrong or any call ended unexpectedly."""
    options = _parser().parse_args(arguments)
    plan = Plan(options.minutes * 60, callers=options.callers, operators=options.operators, seed=options.seed)
    outcome = run(plan, shlex.split(options.serve))
    if options.plot:
        save_memory(outcome, options.plot)
    if options.json:
        print(json.dumps({"machine": machine()} | for_machines(outcome, plan), indent=2))
    else:
        console = Console(width=None if sys.stdout.isatty() else 160)
        console.print(table(outcome))
        for line in (*lines(outcome, plan), machine()):
            console.print(line, highlight=False, markup=False)
    return 0 if outcome.tally.clean else 1


def run(plan: Plan, flags: Sequence[str]) -> Outcome:
    """Finds the true answers with one server, then soaks another."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        heads = [f"{name}={folder}" for name, folder in write_heads(root, seed=3).items()]
        guests = {
            f"models/{which}": write_small_bert(root / which, seed=seed) for seed, which in enumerate(("first", "second"))
        }
        # Both runtimes are tested side by side; later flags win.
        common = ["--runtime", "torch", *flags, "--cache-folder", str(root / "cache")]
        making = recipes([root / which for which in ("first", "second")], NAMES[Role.EMBEDDED]) if plan.operators else []
        hosted = [f"bertscope-mini={EMBEDDED_FOLDER}", *heads]
        own = [f"{guest.removeprefix('models/')}={folder}" for guest, folder in guests.items()]
        with serving(*common, *_models(hosted + own)) as idle:
            _host_by_onnx(idle)
            truths = asyncio.run(find_truths(idle.target, NAMES, guests, making))
        with serving(*common, *_models(hosted)) as server:
            _host_by_onnx(server)
            return asyncio.run(soak(server, NAMES, truths, plan))


def _host_by_onnx(server: Running) -> None:
    """Makes a server run the embedded model by ONNX Runtime, too."""
    with bertscope.Client(server.target) as client:
        client.load_model(NAMES[Role.ONNX], source=str(EMBEDDED_FOLDER), runtime="onnx", timeout=MAKE_SECONDS)


def _models(entries: Sequence[str]) -> list[str]:
    return [part for entry in entries for part in ("--model", entry)]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--callers", type=int, default=8, help="calls at a time")
    parser.add_argument("--operators", type=int, default=3, help="who load, compress, prune and unload models at the same time")
    add_report_options(parser, seed_of="what is asked, and how", plot_of="memory over time")
    return parser
