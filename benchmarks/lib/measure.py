"""Measures claims: both sides in turn, in one run, medians with their spread."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from statistics import median

import torch
from bertscope_service.encoders.onnx.sessions import onnxruntime_version
from bertscope_service.observability.machine import describe

Unit = Callable[[float], str]
"""Formats a number with its unit."""


@dataclass(frozen=True, slots=True)
class Claim:
    """One line of the table. `ratio` is how many times faster ours is, or as the goal says; `spread` its low and high."""

    what: str
    ours: str
    theirs: str
    ratio: float
    spread: tuple[float, float]
    goal: str


def share(what: str, ours: Sequence[float], theirs: Sequence[float], unit: Unit, goal: str = "") -> Claim:
    """Returns the claim that ours is this share of theirs, round by round: drift of the machine affects both sides alike."""
    return _claim(what, ours, theirs, [one / other for one, other in zip(ours, theirs, strict=True)], unit, goal)


def _claim(what: str, ours: Sequence[float], theirs: Sequence[float], ratios: Sequence[float], unit: Unit, goal: str) -> Claim:
    return Claim(what, unit(median(ours)), unit(median(theirs)), median(ratios), (min(ratios), max(ratios)), goal)


@dataclass(frozen=True, slots=True)
class Pair:
    """The seconds of two sides in each round, in the order they ran: ours, theirs, ours, theirs."""

    ours: list[float]
    theirs: list[float]

    def claim(self, what: str, goal: str, unit: Unit) -> Claim:
        """Returns the claim that ours is this many times faster; `unit` formats a time."""
        ratios = [theirs / ours for ours, theirs in zip(self.ours, self.theirs, strict=True)]
        return _claim(what, self.ours, self.theirs, ratios, unit, goal)


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


def fastest(sizes: Sequence[int], work: Callable[[int], object]) -> int:
    """Returns the size with which some work takes the shortest, each tried once after a warm-up."""
    taken = {}
    for size in sizes:
        work(size)
        taken[size] = seconds(lambda: work(size))  # noqa: B023 - called at once
    return min(taken, key=taken.__getitem__)


def per_second(count: int, unit: str) -> Unit:
    """Returns a function that formats the time for `count` items as a rate."""
    return lambda taken: f"{count / taken:.{0 if count >= 100 * taken else 1}f} {unit}/s"


def milliseconds(taken: float) -> str:
    """Formats seconds."""
    return f"{1000 * taken:,.{0 if taken >= 0.1 else 2}f} ms"


def mebibytes(size: float) -> str:
    """Formats bytes."""
    return f"{size / 2**20:.0f} MiB"


def machine() -> str:
    """Returns the machine and the versions, in one line."""
    found = describe([], torch.get_num_threads(), 0.0)
    libraries = {name: version(name) for name in ("torch", "transformers", "grpcio", "protobuf")}
    libraries["onnxruntime"] = onnxruntime_version()
    versions = ", ".join(f"{name} {number}" for name, number in libraries.items())
    hardware = f"{found.cpu}, {' '.join(found.cpu_flags)}, {found.cores} cores, {found.threads} threads"
    return f"{hardware}; Python {platform.python_version()}, {versions}"
