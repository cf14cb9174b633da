"""Runs the sweep on all 64 texts of the claim."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.lib.measure import Claim
from benchmarks.lib.texts import write_bert_base
from benchmarks.serving.sweep import speed

TEXTS = 64


def claims(rounds: int) -> Iterator[Claim]:
    with tempfile.TemporaryDirectory() as name:
        yield from speed(write_bert_base(Path(name)), TEXTS, rounds)
