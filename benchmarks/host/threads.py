"""The CPU time that a server's threads take for a text, by what they are for."""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.lib.calls import Answers

PURPOSES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("loop", ("MainThread",)),
    ("interactive", ("bertscope-interactive",)),
    ("device", ("bertscope-cpu",)),
    ("gRPC", ("_poll_wrapper", "grpc_", "event_engine", "lifeguard")),
)
"""Each purpose with parts of the names of its threads."""

TOKENIZER, OTHER = "tokenizer", "other"


def py_spy() -> str | None:
    """Returns the path of py-spy, or None if it is not installed."""
    beside = Path(sys.executable).with_name("py-spy")
    return str(beside) if beside.exists() else shutil.which("py-spy")


def purpose(name: str, unknown: str = OTHER) -> str:
    """Returns the purpose of a thread of some name, `unknown` if none has it."""
    return next((found for found, parts in PURPOSES if any(part in name for part in parts)), unknown)


def costs(server: int, found: Sequence[Answers], texts: int) -> dict[str, float]:
    """Returns the CPU microseconds that the threads of each purpose took for a text, in calls of so many texts; nothing if the
    system doesn't say."""
    spent, purposes = dict.fromkeys([*(name for name, _ in PURPOSES), TOKENIZER, OTHER], 0.0), _purposes(server)
    for answers in found:
        for thread, seconds in answers.threads.items():
            spent[purposes.get(thread, OTHER)] += 1e6 * seconds
    asked = texts * sum(len(answers.latencies) for answers in found)
    return {name: us / asked for name, us in spent.items()} if any(spent.values()) else {}


def _purposes(server: int) -> dict[int, str]:
    """Returns the purpose of each thread of a server, by the thread's number.

    Only py-spy knows the names that Python gives. Threads that neither Python nor gRPC has named are the tokenizer's.
    """
    python, unknown = {server: "MainThread"}, OTHER
    if spy := py_spy():
        said = subprocess.run([spy, "dump", "--pid", str(server)], stdout=subprocess.PIPE, text=True, check=True).stdout
        python |= {int(number): name for number, name in re.findall(r'^Thread (\d+) .*: "(.*)"$', said, re.MULTILINE)}
        unknown = TOKENIZER
    found = {number: purpose(name) for number, name in python.items()}
    for task in Path(f"/proc/{server}/task").glob("*"):
        with contextlib.suppress(OSError):  # the thread has ended
            found.setdefault(int(task.name), purpose((task / "comm").read_text(), unknown))
    return found
