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
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from benchmarks.lib.measure import machine
from benchmarks.peers import cloze, tensors
from benchmarks.peers.compare import Job, all_started, choose, compare
from benchmarks.peers.processes import idle_cores
from benchmarks.peers.report import Row, table
from benchmarks.peers.sides import Setting

JOBS: dict[tuple[str, str], Callable[[str, int, Sequence[int], Path], Job]] = {
    ("tensors", "tiny"): tensors.job,
    ("tensors", "base"): tensors.job,
    ("cloze", "mini"): cloze.job,
    ("cloze", "base"): cloze.job,
}
"""Makes a comparison from a shape, the number of threads, numbers of our processes to try, and a folder; by job and shape."""

DEFAULT_FOLDER = Path("~/.cache/bertscope/peers")


def main(arguments: Sequence[str]) -> int:
    jobs, shapes = (sorted(set(names)) for names in zip(*JOBS, strict=True))
    parser = argparse.ArgumentParser(prog="python -m benchmarks peers", description=__doc__)
    parser.add_argument("--job", choices=jobs, help="tensors: hidden states for ids; cloze: words for a text; both unless set")
    parser.add_argument("--shapes", default=",".join(shapes), help=f"of {', '.join(shapes)}; separated by commas")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each comparison, at least 5 for a figure to quote")
    parser.add_argument("--threads", type=int, default=2, help="of ONNX Runtime, behind every server")
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2], help="numbers of our processes to choose from")
    parser.add_argument("--lengths", type=int, nargs="+", help="only texts of these numbers of tokens")
    parser.add_argument("--peers-folder", type=Path, default=DEFAULT_FOLDER, help="where Triton and KServe are installed")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of tables")
    options = parser.parse_args(arguments)
    logging.getLogger("transformers").setLevel(logging.ERROR)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # leaves all blocks, which stop the servers
    names = options.shapes.split(",")
    if not set(names) <= set(shapes):
        parser.error(f"--shapes {options.shapes}: there are {', '.join(shapes)}")
    rows, remarks = dict[str, list[Row]](), list[str]()
    for (kind, shape), make in JOBS.items():
        if shape in names and options.job in (None, kind):
            with tempfile.TemporaryDirectory() as folder:
                job = make(shape, options.threads, options.processes, Path(folder))
                found, said = run(job, options.rounds, options.lengths, options.peers_folder.expanduser().absolute())
            rows.setdefault(kind, []).extend(found)
            remarks += said
    if options.json:
        readings = [{"job": kind, **row.as_json()} for kind, some in rows.items() for row in some]
        print(json.dumps({"machine": machine(), "remarks": remarks, "readings": readings}, indent=2))
    else:
        console = Console(width=None if sys.stdout.isatty() else 200)
        for some in rows.values():
            console.print(table(some, f"{options.rounds} rounds; client and server share the machine"))
        console.print(*remarks, machine(), sep="\n", highlight=False)
    return 0


def run(job: Job, rounds: int, lengths: Sequence[int] | None, environments: Path) -> tuple[list[Row], list[str]]:
    """Measures the cells of a job, or those of some lengths; returns them with notes about its servers."""
    rows, remarks, chosen = list[Row](), list[str](), dict[str, Setting]()
    cells = [cell for cell in job.cells if not lengths or cell.length in lengths]
    for title in job.sides:
        print(f"{job.title}, {title}:", file=sys.stderr)
        found = choose(job, title, environments)
        remarks.append(f"{job.title}, {title}: {found.remark}")
        if found.setting is not None:
            chosen[title] = found.setting
    with all_started(job, chosen, environments) as servers:
        idle = ", ".join(f"{title} {idle_cores(server.processes):.3f}" for title, server in servers.items())
        remarks.append(f"{job.title}, cores taken while idle: {idle}")
        for compared in compare(replace(job, cells=cells), servers, rounds):
            rows.append(Row(job.title, list(job.sides), compared))
            print(" | ".join(rows[-1].cells()), file=sys.stderr)
    return rows, remarks
