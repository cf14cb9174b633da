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

from bertscope_service.sources import EMBEDDED_FOLDER
from rich.console import Console

from benchmarks.measure import machine
from benchmarks.options import add_report_options
from benchmarks.serving import serving
from benchmarks.soak.questions import Role
from benchmarks.soak.report import for_machines, lines, save_memory, table
from benchmarks.soak.run import Outcome, Plan, find_truths, soak
from benchmarks.texts import write_small_bert

NAMES = {Role.EMBEDDED: "models/bertscope-mini", Role.CLASSIFIER: "models/classifier"}


def main(arguments: Sequence[str]) -> int:
    """Soak and print; exit status 1 if any answer was wrong or any call ended as nothing explains."""
    options = _parser().parse_args(arguments)
    plan = Plan(options.minutes * 60, callers=options.callers, seed=options.seed)
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
    """Find the true answers with one server, then soak another."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        classifier = write_small_bert(root / "classifier", seed=3, labels=3)
        guests = {
            f"models/{which}": write_small_bert(root / which, seed=seed) for seed, which in enumerate(("first", "second"))
        }
        common = [*flags, "--cache-folder", str(root / "cache")]
        hosted = [f"bertscope-mini={EMBEDDED_FOLDER}", f"classifier={classifier}"]
        own = [f"{guest.removeprefix('models/')}={folder}" for guest, folder in guests.items()]
        with serving(*common, *_models(hosted + own)) as idle:
            truths = asyncio.run(find_truths(idle.target, NAMES, guests))
        with serving(*common, *_models(hosted)) as server:
            return asyncio.run(soak(server, NAMES, truths, plan))


def _models(entries: Sequence[str]) -> list[str]:
    return [part for entry in entries for part in ("--model", entry)]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--callers", type=int, default=8, help="calls at a time")
    add_report_options(parser, seed_of="what is asked, and how", plot_of="memory over time")
    return parser
