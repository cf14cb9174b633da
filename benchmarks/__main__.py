"""Measures claims and prints them in one table, or runs one script with its own options: `python -m benchmarks NAME --help`."""

from __future__ import annotations

import logging
import sys
from argparse import Namespace
from collections.abc import Sequence
from importlib import import_module
from itertools import takewhile
from typing import Any

from benchmarks.lib.options import ROUNDS, parser

QUICK = {
    "cloze": "serving.cloze",
    "attention": "serving.attention",
    "description": "serving.description",
    "overhead": "serving.overhead",
    "padding": "serving.padding",
    "sweep": "serving.sweep",
    "interactive": "serving.interactive",
    "inspect": "serving.inspection",
    "overload": "load.overload",
    "onnx": "serving.onnx",
    "security": "serving.security",
    "observing": "serving.observing",
    "failover": "servers.failover",
    "attribution": "serving.attribution",
    "sites": "serving.sites",
}
"""The scripts of `make bench`, with their modules: no name runs them all."""

LONG = {
    "find": "serving.find",
    "heavy": "load.heavy_callers",
    "host": "host.command",
    "largest": "load.largest",
    "load": "load.command",
    "peers": "peers.command",
    "processes": "servers.processes",
    "random-claims": "serving.random_claims",
    "ray": "servers.ray",
    "rolling": "servers.rolling",
    "scores": "serving.scores",
    "soak": "soak.command",
    "startup": "serving.startup",
    "states": "serving.states",
    "training": "soak.training",
}
"""Scripts that take longer or need data, and run only when they are named."""

SCRIPTS = QUICK | LONG
"""All scripts. A module declares OPTIONS, and has either `claims(options)`, which yields comparisons as they are measured, or
`report(options)`."""


def main(arguments: Sequence[str]) -> int:
    """Runs scripts. Returns 1 if one of them found a fault."""
    names = list(takewhile(lambda word: not word.startswith("-"), arguments))
    options = read(names, arguments[len(names) :])
    logging.getLogger("transformers").setLevel(logging.ERROR)
    # Imported here, so that a script's options are shown without waiting for libraries.
    report = import_module("benchmarks.lib.report")
    reports, claims = dict[str, Any](), list[Any]()
    for name in names or QUICK:
        script, own = module(name), options[name]
        if hasattr(script, "claims"):
            found = []
            for claim in script.claims(own):
                found.append(claim)
                print(f"{claim.what}: {claim.ratio:.2f}", file=sys.stderr)
            claims += found
            reports[name] = report.of_claims(found, own.rounds)
        else:
            reports[name] = script.report(own)
    first = next(iter(options.values()))
    if first.output:
        first.output.write_text(report.document(reports), encoding="utf-8")
    if first.json:
        print(report.document(reports))
    else:
        compared = [report.of_claims(claims, first.rounds)] if claims else []
        report.show([*compared, *(one for name, one in reports.items() if not hasattr(module(name), "claims"))])
    return int(any(one.faults for one in reports.values()))


def module(name: str) -> Any:
    """Returns the module of a script."""
    return import_module(f"benchmarks.{SCRIPTS[name]}")


def read(names: Sequence[str], arguments: Sequence[str]) -> dict[str, Namespace]:
    """Returns the options of each script: one alone has its own, several have those that all of them share."""
    program = " ".join(["python -m benchmarks", *names])
    if unknown := [name for name in names if name not in SCRIPTS]:
        parser(program, __doc__, ()).error(f"no script is named {', '.join(unknown)}; there are {', '.join(SCRIPTS)}")
    if len(names) == 1:
        script = module(names[0])
        return {names[0]: parser(program, script.__doc__, script.OPTIONS).parse_args(arguments)}
    listed = f"Run by `make bench`: {', '.join(QUICK)}. Others: {', '.join(LONG)}."
    shared = parser(program, __doc__, (ROUNDS,), listed).parse_args(arguments)
    own = {name: parser(program, None, module(name).OPTIONS).parse_args([]) for name in names or QUICK}
    return {name: Namespace(**vars(options) | vars(shared)) for name, options in own.items()}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
