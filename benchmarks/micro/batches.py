"""Counts the batches that waiting texts of mixed lengths form, and their padding.

`python -m benchmarks batches`. Nothing runs: it is the queue's own choice, by the rule of a CPU, of a GPU on which small
batches take no longer than one text, and of a GPU whose layers run on real tokens alone.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from bertscope_service.encoders.base import Capabilities
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.engine.queue import RowQueue
from bertscope_service.engine.rows import Job, Priority, Row
from rich.console import Console
from rich.table import Table

BUDGET = 16_384
"""Tokens in a batch on a GPU, as the server has it."""

SATURATION = 4096
"""Tokens up to which a batch takes no longer than one text, as it may be for a bert-base on a large card; the server measures
it."""

MIXTURES = {"64 of 10 to 60 tokens": (64, 10, 60), "256 of 16 to 512 tokens": (256, 16, 512)}


@dataclass(eq=False)
class _Encoder:
    """Stands for a model: only what the queue asks."""

    capabilities: Capabilities


class _Observer:
    group = None
    reads_places = False


def batches(lengths: Sequence[int], *, unpadded: bool, saturation: int) -> list[list[int]]:
    """Returns the lengths of the rows of each batch."""

    async def formed() -> list[list[int]]:
        queue = RowQueue(saturation=lambda _: saturation)
        encoder = _Encoder(Capabilities(unpadded=unpadded))
        rows = [Row(encoder, TokenSequence([0] * length, []), _Observer()) for length in lengths]  # type: ignore[arg-type]
        queue.push(Job(rows, client="", priority=Priority.INTERACTIVE, deadline=None))
        found = []
        while taken := queue.take(BUDGET, 0.0).rows:
            found.append([row.length for row in taken])
        return found

    return asyncio.run(formed())


def main(arguments: Sequence[str]) -> int:
    argparse.ArgumentParser(prog="python -m benchmarks batches", description=__doc__).parse_args(arguments)
    table = Table("waiting texts", "rule", "batches", "padding", "layers run it")
    draw = np.random.default_rng(5)
    for name, (count, low, high) in MIXTURES.items():
        lengths = draw.integers(low, high, count, endpoint=True).tolist()
        for rule, unpadded, saturation in (
            ("CPU", False, 0),
            (f"GPU, {SATURATION} free", False, SATURATION),
            ("GPU, without padding", True, 0),
        ):
            found = batches(lengths, unpadded=unpadded, saturation=saturation)
            places = sum(len(rows) * max(rows) for rows in found)
            padding = f"{1 - sum(lengths) / places:.0%}"
            table.add_row(name, rule, str(len(found)), padding, "no" if unpadded else "yes")
    print(f"torch {torch.__version__}; batches of up to {BUDGET} tokens")
    Console().print(table)
    return 0
