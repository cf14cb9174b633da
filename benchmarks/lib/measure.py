"""Measures claims: both sides in turn, in one run, medians with their spread."""

from __future__ import annotations

import platform
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version

import torch
from bertscope_service.encoders.onnx.sessions import onnxruntime_version
from bertscope_service.observability.machine import describe
from rich.console import Console
from rich.table import Table

from benchmarks.lib.kernels import kernels


@dataclass(frozen=True, slots=True)
class Claim:
    """One line of the table. `ratio` is how many times faster ours is, or as the goal says; `spread` its low and high."""

    what: str
    ours: str
    theirs: str
    ratio: float
    spread: tuple[float, float]
    goal: str


@dataclass(frozen=True, slots=True)
class Pair:
    """The seconds of two sides in each round, in the order they ran: ours, theirs, ours, theirs."""

    ours: list[float]
    theirs: list[float]

    @property
    def ratios(self) -> list[float]:
        """The speed of ours over theirs, round by round: drift of the machine affects both sides of a round alike."""
        return [theirs / ours for ours, theirs in zip(self.ours, self.theirs, strict=True)]

    def claim(self, what: str, goal: str, unit: Callable[[float], str]) -> Claim:
        """Returns the claim that ours is this many times faster; `unit` formats a time."""
        middle = statistics.median
        spread = (min(self.ratios), max(self.ratios))
        return Claim(what, unit(middle(self.ours)), unit(middle(self.theirs)), middle(self.ratios), spread, goal)


def in_turn(ours: Callable[[], object], theirs: Callable[[], object], rounds: int) -> Pair:
    """Times two sides alternately, after one warm-up each."""
    ours()
    theirs()
    (pair,) = all_in_turn(ours, [theirs], rounds)
    return pair


def all_in_turn(ours: Callable[[], object], peers: Sequence[Callable[[], object]], rounds: int) -> list[Pair]:
    """Times several peers with ours, one after another in each round, all warm. Returns one pair for each peer."""
    pairs = [Pair([], []) for _ in peers]
    for _ in range(rounds):
        taken = seconds(ours)
        for pair, theirs in zip(pairs, peers, strict=True):
            pair.ours.append(taken)
            pair.theirs.append(seconds(theirs))
    return pairs


def seconds(work: Callable[[], object]) -> float:
    """Returns how long a function takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def per_second(count: int, unit: str) -> Callable[[float], str]:
    """Returns a function that formats the time for `count` items as a rate."""
    return lambda taken: f"{count / taken:.{0 if count >= 100 * taken else 1}f} {unit}/s"


def machine() -> str:
    """Returns the machine and the versions, in one line."""
    found = describe([], torch.get_num_threads(), 0.0)
    libraries = {name: version(name) for name in ("torch", "transformers", "grpcio", "protobuf")}
    libraries["onnxruntime"] = onnxruntime_version()
    versions = ", ".join(f"{name} {number}" for name, number in libraries.items())
    hardware = f"{found.cpu}, {' '.join(found.cpu_flags)}, {found.cores} cores, {found.threads} threads"
    return f"{hardware}; Python {platform.python_version()}, {versions}"


def print_table(claims: list[Claim], rounds: int) -> None:
    """Prints claims, the machine that they were measured on, and the kernels that its libraries chose."""
    table = Table(title=f"Medians of {rounds} rounds, both sides in turn in one run; client and server share the machine")
    for heading in ("what", "ours", "theirs", "ratio", "spread", "goal"):
        table.add_column(heading, justify="left" if heading in ("what", "goal") else "right", overflow="fold")
    for claim in claims:
        low, high = claim.spread
        table.add_row(claim.what, claim.ours, claim.theirs, f"{claim.ratio:.2f}", f"{low:.2f} to {high:.2f}", claim.goal)
    console = Console(width=None if sys.stdout.isatty() else 140)
    console.print(table)
    for line in (machine(), *kernels()):
        console.print(line, highlight=False)
