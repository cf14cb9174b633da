"""Measures the claims and prints one table."""

from __future__ import annotations

import argparse
import dataclasses
import json
import logging
import sys

from benchmarks.host import command as host
from benchmarks.lib.kernels import kernels
from benchmarks.lib.measure import Claim, machine, print_table
from benchmarks.load import command as load
from benchmarks.load import heavy_callers, largest, overload
from benchmarks.micro import (
    attribution,
    batches,
    family,
    int8,
    intervals,
    precisions,
    quantities,
    runtimes,
    trace_intervals,
    vocabulary,
)
from benchmarks.peers import command as peers
from benchmarks.processes import command as processes
from benchmarks.ray_serve import command as ray_serve
from benchmarks.rolling import command as rolling
from benchmarks.serving import (
    attention,
    cloze,
    codes,
    description,
    distillation,
    explore,
    facts,
    failover,
    find,
    gradients,
    inspection,
    interactive,
    observing,
    overhead,
    padding,
    primer,
    probes,
    pruning,
    random_claims,
    scores,
    security,
    sites,
    startup,
    states,
    sweep,
    sweep64,
    words,
)
from benchmarks.serving import (
    onnx as onnx_serving,
)
from benchmarks.soak import command as soak
from benchmarks.soak import training

SCRIPTS = {
    "cloze": cloze,
    "attention": attention,
    "description": description,
    "overhead": overhead,
    "padding": padding,
    "sweep": sweep,
    "interactive": interactive,
    "inspect": inspection,
    "overload": overload,
    "pruning": pruning,
    "runtimes": runtimes,
    "family": family,
    "int8": int8,
    "quantities": quantities,
    "vocabulary": vocabulary,
    "onnx": onnx_serving,
    "security": security,
    "observing": observing,
    "failover": failover,
    "words": words,
    "gradients": gradients,
    "sites": sites,
}
LONG_SCRIPTS = {"sweep-64": sweep64}
"""Scripts that run only when they are named: half an hour each."""

REPORTS = {
    "attribution": attribution.main,
    "batches": batches.main,
    "codes": codes.main,
    "trace-intervals": trace_intervals.main,
    "host": host.main,
    "load": load.main,
    "distill": distillation.main,
    "explore": explore.main,
    "facts": facts.main,
    "find": find.main,
    "heavy": heavy_callers.main,
    "largest": largest.main,
    "soak": soak.main,
    "peers": peers.main,
    "processes": processes.main,
    "ray": ray_serve.main,
    "rolling": rolling.main,
    "primer": primer.main,
    "probes": probes.main,
    "random-claims": random_claims.main,
    "scores": scores.main,
    "startup": startup.main,
    "states": states.main,
    "training": training.main,
    "intervals": intervals.main,
    "precisions": precisions.main,
}
"""Scripts with their own flags and tables: `python -m benchmarks load --help`."""


def main() -> int:
    if sys.argv[1:] and sys.argv[1] in REPORTS:
        return REPORTS[sys.argv[1]](sys.argv[2:])
    also = f"With flags of their own: {', '.join(REPORTS)}."
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__, epilog=also)
    parser.add_argument(
        "names", nargs="*", choices=[[], *SCRIPTS, *LONG_SCRIPTS], help="which ones; none means all but sweep-64"
    )
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each comparison, at least 5 for a figure to quote")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    options = parser.parse_args()
    logging.getLogger("transformers").setLevel(logging.ERROR)
    found: list[Claim] = []
    for name in options.names or SCRIPTS:
        for claim in (SCRIPTS | LONG_SCRIPTS)[name].claims(options.rounds):
            found.append(claim)
            print(f"{claim.what}: {claim.ratio:.2f}", file=sys.stderr)
    if options.json:
        claims = [dataclasses.asdict(claim) for claim in found]
        print(json.dumps({"machine": machine(), "kernels": kernels(), "claims": claims}, indent=2))
    else:
        print_table(found, options.rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
