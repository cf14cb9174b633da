"""`python -m benchmarks load`: goodput and latency of cloze against offered load, up to ten times the server's capacity."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bertscope_service.embedded import EMBEDDED_FOLDER
from rich.console import Console

from benchmarks.lib.measure import machine
from benchmarks.lib.options import add_report_options
from benchmarks.lib.texts import write_bert_base
from benchmarks.load.curve import LOADS, Curve, Plan, goals, measure_curve
from benchmarks.load.plot import save_curves
from benchmarks.load.report import faults, for_machines, remarks, table
from benchmarks.load.served import served
from benchmarks.load.workload import cloze_workloads

MODELS = ("bertscope-mini", "bert-base")


def main(arguments: Sequence[str]) -> int:
    """Measures and prints; exit status 1 after a wrong answer or an error that no load explains."""
    options = _parser().parse_args(arguments)
    plan = Plan(
        tuple(options.loads), seconds=options.seconds, deadline=options.deadline, clients=options.clients, seed=options.seed
    )
    curves = [curve for model in options.model or MODELS[:1] for curve in _curves(model, options, plan)]
    found = [fault for curve in curves for fault in faults(curve)]
    if options.plot:
        save_curves(curves, options.plot)
    if options.json:
        print(json.dumps({"machine": machine(), "curves": list(map(for_machines, curves)), "faults": found}, indent=2))
    else:
        _print(curves, found)
    return 1 if any(point.wrong or point.failed for curve in curves for point in curve.points.values()) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks load", description=__doc__)
    parser.add_argument("--model", action="append", choices=MODELS, help="repeatable; bertscope-mini unless given")
    parser.add_argument("--texts", type=int, nargs="+", default=[1, 8], help="texts in a call; a curve for each")
    parser.add_argument("--loads", type=float, nargs="+", default=list(LOADS), help="offered load, times capacity")
    parser.add_argument("--seconds", type=float, default=10.0, help="counted at each load")
    parser.add_argument("--deadline", type=float, default=2.0, help="of each call, seconds from its arrival")
    parser.add_argument("--clients", type=int, default=4, help="connections, each with an equal part of the load")
    pinned = "server and callers each on their own cores, where there are two; the server's threads are as many as its cores"
    parser.add_argument("--pin", action=argparse.BooleanOptionalAction, default=True, help=pinned)
    envoy = "load goes through deploy/envoy, which runs on the callers' cores; capacity is the server's own, without it"
    parser.add_argument("--envoy", action="store_true", help=envoy)
    add_report_options(parser, seed_of="the arrivals", plot_of="the curves")
    return parser


def _curves(model: str, options: argparse.Namespace, plan: Plan) -> list[Curve]:
    with tempfile.TemporaryDirectory() as name:
        folder = EMBEDDED_FOLDER if model == MODELS[0] else write_bert_base(Path(name))
        workloads = cloze_workloads(model, folder, options.texts)
        flags = ("--model", f"{model}={folder}", *shlex.split(options.serve))
        with served(*flags, pin=options.pin, envoy=options.envoy) as load:
            return [
                measure_curve(
                    load,
                    workload,
                    plan,
                    lambda line: print(f"{model}, {workload.texts} a call: {line}", file=sys.stderr),  # noqa: B023 - called at once
                )
                for workload in workloads
            ]


def _print(curves: list[Curve], found: list[str]) -> None:
    console = Console(width=None if sys.stdout.isatty() else 200)
    for curve in curves:
        console.print(table(curve))
        for remark in remarks(curve):
            console.print(remark, highlight=False)
        for goal in goals(curve):
            low, high = goal.spread
            line = f"{goal.what}: {goal.ours} / {goal.theirs} = {goal.ratio:.2f} ({low:.2f} to {high:.2f}); goal: {goal.goal}"
            console.print(line, highlight=False)
    for fault in found:
        console.print(f"FAULT {fault}", highlight=False)
    console.print(machine(), highlight=False)
