"""Runs rows of observers in this process, without a server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bertscope_service.encoders.base import Encoder, TokenSequence
from bertscope_service.encoders.observer import Observer

BATCH = 32
Rows = Sequence[tuple[TokenSequence, Observer]]


def results(encoder: Encoder, rows: Rows) -> list[Any]:
    """Runs rows of one kind of observer, in batches of neighbours by length. Returns what each observer saw."""
    found: list[Any] = [None] * len(rows)
    order = sorted(range(len(rows)), key=lambda index: len(rows[index][0]))
    for start in range(0, len(order), BATCH):
        part = order[start : start + BATCH]
        observers = [rows[index][1] for index in part]
        state = encoder.begin([rows[index][0] for index in part])
        readout = type(observers[0]).run(encoder, state, None, observers)
        dealt = readout.deal(tuple(tensor.numpy() for tensor in readout.tensors))
        for index, result in zip(part, dealt, strict=True):
            found[index] = result
    return found
