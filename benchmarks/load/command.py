"""Measures goodput and latency of cloze against offered load, up to ten times the server's capacity."""

from __future__ import annotations

import argparse
import shlex
import tempfile
from argparse import Namespace
from pathlib import Path

from bertscope_service.embedded import EMBEDDED_FOLDER

from benchmarks.lib.options import SEED, Option, flag, option, seconds, serve
from benchmarks.lib.report import Report
from benchmarks.lib.texts import write_bert_base
from benchmarks.load.curve import LOADS, Curve, Plan, measure_curve
from benchmarks.load.report import faults, for_machines, remarks, table
from benchmarks.load.served import served
from benchmarks.load.workload import cloze_workloads

MODELS = ("bertscope-mini", "bert-base")
PINNED = "server and callers each on their own cores, where there are two; the server's threads are as many as its cores"
OPTIONS = (
    seconds(10.0, "counted at each load"),
    SEED,
    serve(),
    option("--model", "repeatable; bertscope-mini unless given", action="append", choices=MODELS),
    option("--texts", "texts in a call; a curve for each", [1, 8], type=int, nargs="+"),
    option("--loads", "offered load, times capacity", list(LOADS), type=float, nargs="+"),
    option("--deadline", "of each call, seconds from its arrival", 2.0),
    option("--clients", "connections, each with an equal part of the load", 4),
    Option("--pin", {"action": argparse.BooleanOptionalAction, "default": True, "help": PINNED}),
    flag("--envoy", "load goes through deploy/envoy, on the callers' cores; capacity is the server's own, without it"),
)


def report(options: Namespace) -> Report:
    """Returns a curve for each model and number of texts; wrong answers and errors that no load explains are faults."""
    plan = Plan(
        tuple(options.loads), seconds=options.seconds, deadline=options.deadline, clients=options.clients, seed=options.seed
    )
    curves = [curve for model in options.model or MODELS[:1] for curve in _curves(model, options, plan)]
    return Report(
        list(map(table, curves)),
        {"curves": list(map(for_machines, curves))},
        [remark for curve in curves for remark in remarks(curve)],
        [fault for curve in curves for fault in faults(curve)],
    )


def _curves(model: str, options: Namespace, plan: Plan) -> list[Curve]:
    with tempfile.TemporaryDirectory() as name:
        folder = EMBEDDED_FOLDER if model == MODELS[0] else write_bert_base(Path(name))
        workloads = cloze_workloads(model, folder, options.texts)
        flags = ("--model", f"{model}={folder}", *shlex.split(options.serve))
        with served(*flags, pin=options.pin, envoy=options.envoy) as load:
            return [measure_curve(load, workload, plan) for workload in workloads]
