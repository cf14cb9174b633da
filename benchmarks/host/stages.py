"""The shares of a server's threads and stages in the time that Python's lock is held, from samples by py-spy."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from benchmarks.host.threads import OTHER, purpose, py_spy

ANSWERS = ("cloze.py:answer", "cloze.py:_likeliest", "cloze.py:_chosen", "classification.py:answer", "classification.py:log_")
STAGES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("tokenizer", ("checkpoints/encoding", "checkpoints/tokenize", "checkpoints/ascii_tokenizer")),
    (
        "reply",
        ("render", "api/cloze_predictions", "api/label_predictions", "api/wire", "api/tensor_", "api/provenance", *ANSWERS),
    ),
    (
        "plan",
        ("rpc/malformed", "rpc/message_parts", "api/", "analyses/cloze", "analyses/classification", "checkpoints/flat_texts"),
    ),
    ("arrays", ("encoders/placement", "encoders/transfers")),
    ("batch", ("engine/runs", "engine/batch", "encoders/", "analyses/observers", "benchmarks/host")),
    ("wake", ("engine/rows.py:_call", "engine/worker.py:_wake")),
    ("queue", ("engine/",)),
    ("admission", ("bertscope_service/",)),
    ("loop", ("grpc/", "asyncio/", "uvloop")),
)
"""Each stage with parts of the frames "file:function" that belong to it; in "wake", one thread wakes another. A sample counts
for the innermost frame that any stage knows; the first stage that knows it has it."""

# Pausing the process for a sample would stop its threads one after the other, and those that run on would let go of the lock.
SAMPLING = ("--gil", "--idle", "--nonblocking", "--threads", "--full-filenames", "--format", "raw")
NAMES = (*(name for name, _ in STAGES), OTHER)
RATE = 250
"""Samples a second."""


@dataclass(frozen=True, slots=True)
class Holders:
    """The holders of Python's lock."""

    threads: dict[str, float]
    """For which share of the time threads of each purpose do."""
    stages: dict[str, float]
    """The share of each stage in the samples in which any thread does."""

    @property
    def any(self) -> float:
        """The share of the time in which any thread does."""
        return sum(self.threads.values())


def profile(process: int, seconds: float) -> Holders:
    """Samples a process for some seconds. Raises RuntimeError if py-spy fails."""
    lasting = max(1, round(seconds))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "stacks"
        command = [str(py_spy()), "record", *SAMPLING, "--rate", str(RATE), "--duration", str(lasting)]
        done = subprocess.run([*command, "--pid", str(process), "--output", str(file)], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"py-spy failed: {done.stderr[-300:]}")
        unread = re.search(r"Errors: (\d+)", done.stdout)
        return holders(file.read_text(), lasting * RATE, int(unread[1]) if unread else 0)


def holders(stacks: str, samples: int, unread: int) -> Holders:
    """Reads py-spy's raw stacks, one line each: the thread, frames from the outside in, and a count.

    `samples` are all, also those in which no thread held the lock. In `unread` ones the stack changed while py-spy read it:
    they are taken to be as those that it could read.
    """
    threads, stages = Counter[str](), Counter[str]()
    for line in stacks.splitlines():
        frames, _, count = line.rpartition(" ")
        thread, *stack = frames.split(";")
        threads[purpose(thread)] += int(count)
        stages[_stage(list(map(_known, stack)))] += int(count)
    shares = {name: count / stages.total() for name, count in stages.most_common()}
    held = (threads.total() + unread) / samples
    return Holders({name: held * count / threads.total() for name, count in threads.most_common()}, shares)


def _known(frame: str) -> str:
    """Returns "path/to/file.py:function" for "Class.function.<locals>.inner (path/to/file.py:12)"."""
    function, _, place = frame.partition(" (")
    return f"{place.rpartition(':')[0]}:{function.partition('.<locals>')[0].rpartition('.')[2]}"


def _stage(stack: list[str]) -> str:
    for frame in reversed(stack):
        for stage, parts in STAGES:
            if any(part in frame for part in parts):
                return stage
    return OTHER
