"""Compares the same ONNX model behind our server and behind other model servers: `python -m benchmarks peers`.

Triton and KServe are installed on first use, some 650 MB, into a folder that is kept.
"""

from __future__ import annotations

import argparse
import json
import logging
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console

from benchmarks.lib.measure import machine
from benchmarks.peers import kserve, ours, triton
from benchmarks.peers.compare import CELLS, all_started, choose, compare
from benchmarks.peers.graph import Graph
from benchmarks.peers.models import SHAPES, Shape, write_model
from benchmarks.peers.processes import idle_cores
from benchmarks.peers.report import OURS, Row, table
from benchmarks.peers.sides import Setting

SETTINGS: dict[str, Callable[[int], list[Setting]]] = {
    OURS: ours.settings,
    "Triton": triton.settings,
    "KServe": kserve.settings,
}
DEFAULT_FOLDER = Path("~/.cache/bertscope/peers")


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks peers", description=__doc__)
    parser.add_argument("--shapes", default=",".join(SHAPES), help=f"of {', '.join(SHAPES)}; separated by commas")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each comparison, at least 5 for a figure to quote")
    parser.add_argument("--threads", type=int, default=2, help="of ONNX Runtime, behind every server")
    parser.add_argument("--peers-folder", type=Path, default=DEFAULT_FOLDER, help="where Triton and KServe are installed")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    options = parser.parse_args(arguments)
    logging.getLogger("transformers").setLevel(logging.ERROR)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # leaves all blocks, which stop the servers
    names = options.shapes.split(",")
    if not set(names) <= set(SHAPES):
        parser.error(f"--shapes {options.shapes}: there are {', '.join(SHAPES)}")
    environments = options.peers_folder.expanduser().absolute()
    rows, remarks = list[Row](), list[str]()
    for name in names:
        found, said = run(SHAPES[name], options.rounds, options.threads, environments)
        rows += found
        remarks += said
    titles = list(SETTINGS)
    if options.json:
        readings = [row.as_json(titles) for row in rows]
        print(json.dumps({"machine": machine(), "remarks": remarks, "readings": readings}, indent=2))
    else:
        console = Console(width=None if sys.stdout.isatty() else 200)
        console.print(table(rows, titles, f"{options.rounds} rounds; client and server share the machine"))
        console.print(*remarks, machine(), sep="\n", highlight=False)
    return 0


def run(shape: Shape, rounds: int, threads: int, environments: Path) -> tuple[list[Row], list[str]]:
    """Measures all cells of a shape; returns them with notes about its servers."""
    rows, remarks = list[Row](), list[str]()
    with tempfile.TemporaryDirectory() as folder:
        model = write_model(shape, Path(folder))
        bare = Graph(str(model.graph), threads)
        chosen = dict[str, Setting]()
        for title, settings in SETTINGS.items():
            print(f"{shape.title}, {title}:", file=sys.stderr)
            found = choose(settings(threads), model, environments, bare)
            remarks.append(f"{shape.title}, {title}: {found.remark}")
            if found.setting is not None:
                chosen[title] = found.setting
        with all_started(chosen, model, environments) as servers:
            idle = ", ".join(f"{title} {idle_cores(server.process):.3f}" for title, server in servers.items())
            remarks.append(f"{shape.title}, cores taken while idle: {idle}")
            for compared in compare(servers, CELLS, bare, rounds):
                rows.append(Row(shape.title, compared))
                print(" | ".join(rows[-1].cells(list(SETTINGS))), file=sys.stderr)
    return rows, remarks
