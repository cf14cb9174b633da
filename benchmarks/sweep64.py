"""The sweep on all 64 texts that the claim names."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measure import Claim
from benchmarks.sweep import speed
from benchmarks.texts import write_bert_base

TEXTS = 64


def claims(rounds: int) -> Iterator[Claim]:
    with tempfile.TemporaryDirectory() as name:
        yield from speed(write_bert_base(Path(name)), TEXTS, rounds)
