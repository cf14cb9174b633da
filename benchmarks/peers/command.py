"""Compares the same ONNX model behind our server and behind other model servers.

Triton and KServe are installed on first use, some 650 MB, into a folder that is kept.
"""

from __future__ import annotations

import signal
import sys
import tempfile
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.lib.options import ROUNDS, option
from benchmarks.lib.report import Report
from benchmarks.lib.sides import Row, compared
from benchmarks.peers import cloze, tensors
from benchmarks.peers.compare import Job, all_started, choose, compare
from benchmarks.peers.running import Setting

JOBS: dict[tuple[str, str], Callable[[str, int, Sequence[int], Path], Job]] = {
    ("tensors", "tiny"): tensors.job,
    ("tensors", "base"): tensors.job,
    ("cloze", "mini"): cloze.job,
    ("cloze", "base"): cloze.job,
}
"""Makes a comparison from a shape, the number of threads, numbers of our processes to try, and a folder; by job and shape."""

NAMES, SHAPES = (sorted(set(names)) for names in zip(*JOBS, strict=True))
OPTIONS = (
    ROUNDS,
    option("--job", "tensors: hidden states for ids; cloze: words for a text; both unless set", choices=NAMES),
    option("--shapes", "of models", SHAPES, choices=SHAPES, nargs="+"),
    option("--threads", "of ONNX Runtime, behind every server", 2),
    option("--processes", "numbers of our processes to choose from", [1, 2], type=int, nargs="+"),
    option("--lengths", "only texts of these numbers of tokens", type=int, nargs="+"),
    option("--peers-folder", "where Triton and KServe are installed", Path("~/.cache/bertscope/peers"), type=Path),
)


def report(options: Namespace) -> Report:
    """Returns the comparisons of all jobs and shapes that are asked for."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # leaves all blocks, which stop the servers
    rows, remarks = list[Row](), list[str]()
    for (kind, shape), make in JOBS.items():
        if shape in options.shapes and options.job in (None, kind):
            with tempfile.TemporaryDirectory() as folder:
                job = make(shape, options.threads, options.processes, Path(folder))
                found, said = run(job, options.rounds, options.lengths, options.peers_folder.expanduser().absolute())
            rows += found
            remarks += said
    return compared("The same model behind other servers", rows, remarks)


def run(job: Job, rounds: int, lengths: Sequence[int] | None, environments: Path) -> tuple[list[Row], list[str]]:
    """Measures the cells of a job, or those of some lengths; returns them with notes about its servers."""
    remarks, chosen = list[str](), dict[str, Setting]()
    cells = [cell for cell in job.cells if not lengths or cell.length in lengths]
    for title in job.sides:
        print(f"{job.title}, {title}:", file=sys.stderr)
        found = choose(job, title, environments)
        remarks.append(f"{job.title}, {title}: {found.remark}")
        if found.setting is not None:
            chosen[title] = found.setting
    with all_started(job, chosen, environments) as servers:
        idle = ", ".join(f"{title} {server.idle_cores():.3f}" for title, server in servers.items())
        remarks.append(f"{job.title}, cores taken while idle: {idle}")
        return list(compare(job, servers, cells, rounds)), remarks
