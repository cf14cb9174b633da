"""Runs rows of observers in this process, without a server."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from typing import Any

from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.observer import Observer
from bertscope_service.encoders.sequences import TokenSequence

BATCH = 32
Rows = Sequence[tuple[TokenSequence, Observer]]


def results(encoder: Encoder, rows: Rows) -> list[Any]:
    """Runs rows in batches of one kind of observer, neighbours by length. Returns what each observer saw."""
    found: list[Any] = [None] * len(rows)
    kinds = defaultdict[Hashable, list[int]](list)
    for index, (_, observer) in enumerate(rows):
        kinds[type(observer), observer.group].append(index)
    for numbers in kinds.values():
        order = sorted(numbers, key=lambda index: len(rows[index][0]))
        for start in range(0, len(order), BATCH):
            part = order[start : start + BATCH]
            for index, result in zip(part, _batch(encoder, [rows[index] for index in part]), strict=True):
                found[index] = result
    return found


def _batch(encoder: Encoder, rows: Rows) -> list[Any]:
    observers = [observer for _, observer in rows]
    readout = type(observers[0]).run(encoder, encoder.begin([sequence for sequence, _ in rows]), None, observers)
    return readout.deal(tuple(tensor.numpy() for tensor in readout.tensors))
