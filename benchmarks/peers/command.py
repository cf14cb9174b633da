"""Compares the same masked language model behind our server and behind Triton.

Triton is installed on first use, some 650 MB, into a folder that is kept.
"""

from __future__ import annotations

import signal
import sys
import tempfile
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from bertscope_service.embedded import EMBEDDED_FOLDER

from benchmarks.lib.options import ROUNDS, option
from benchmarks.lib.report import Report
from benchmarks.lib.sides import Row, compared
from benchmarks.lib.texts import write_bert_base
from benchmarks.peers import ours, triton
from benchmarks.peers.cloze import TEXTS, Cell, ClozeCallers
from benchmarks.peers.cloze_clients import ALL_SCORES, GATHERED, OURS
from benchmarks.peers.cloze_graphs import write_cloze_graphs
from benchmarks.peers.compare import Job, all_started, choose, compare
from benchmarks.peers.running import Setting, Side, Written

OPTIONS = (
    ROUNDS,
    option("--shapes", "of models", ["mini", "base"], choices=("mini", "base"), nargs="+"),
    option("--threads", "of ONNX Runtime, behind every server", 2),
    option("--processes", "numbers of our processes to choose from", [1, 2], type=int, nargs="+"),
    option("--lengths", "only texts of these numbers of tokens", type=int, nargs="+"),
    option("--peers-folder", "where Triton is installed", Path("~/.cache/bertscope/peers"), type=Path),
)


def report(options: Namespace) -> Report:
    """Returns the comparisons of all shapes that are asked for."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # leaves all blocks, which stop the servers
    rows, remarks = list[Row](), list[str]()
    for shape in options.shapes:
        with tempfile.TemporaryDirectory() as folder:
            job = make_job(shape, options.threads, options.processes, Path(folder))
            found, said = run(job, options.rounds, options.lengths, options.peers_folder.expanduser().absolute())
        rows += found
        remarks += said
    return compared("The five likeliest words for a mask", rows, remarks)


def make_job(shape: str, threads: int, processes: Sequence[int], folder: Path) -> Job:
    """Returns the comparison on a bert-base of random weights ("base") or on the embedded model ("mini")."""
    checkpoint = EMBEDDED_FOLDER if shape == "mini" else write_bert_base(folder / "checkpoint")
    whole, gathered = write_cloze_graphs(checkpoint, folder)
    sides = {
        OURS: Side(ours.settings(threads, processes), Written(checkpoint, whole)),
        ALL_SCORES: Side(triton.settings(threads), Written(checkpoint, whole)),
        GATHERED: Side(triton.settings(threads), Written(checkpoint, gathered)),
    }
    counts = (1, 8, 32)
    return Job(
        title="bertscope-mini" if shape == "mini" else "bert-base",
        sides=sides,
        cells=[Cell(length, callers) for length in TEXTS for callers in counts],
        searched=[Cell(min(TEXTS), callers) for callers in counts],
        client=ClozeCallers(checkpoint / "tokenizer.json", gathered),
    )


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
