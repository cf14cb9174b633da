"""Runs rows on an encoder without the engine: those of one group in batches, results in the rows' order."""

from collections import defaultdict
from collections.abc import Hashable, Sequence
from typing import Any

import torch
from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.edits import Edits
from bertscope_service.encoders.observer import Observer
from bertscope_service.encoders.sequences import TokenSequence


@torch.inference_mode()
def run_rows(
    encoder: Encoder, rows: Sequence[tuple[TokenSequence, Observer]], gates: Edits | None = None, *, batch: int = 5
) -> list[Any]:
    groups: dict[Hashable, list[int]] = defaultdict(list)
    for index, (_, observer) in enumerate(rows):
        groups[observer.group].append(index)
    results: list[Any] = [None] * len(rows)
    for members in groups.values():
        for begin in range(0, len(members), batch):
            part = members[begin : begin + batch]
            state = encoder.begin([rows[index][0] for index in part])
            observers = [rows[index][1] for index in part]
            readout = type(observers[0]).run(encoder, state, encoder.place_edits([gates] * len(part)), observers)
            dealt = readout.deal(tuple(tensor.numpy() for tensor in readout.tensors))
            for index, result in zip(part, dealt, strict=True):
                results[index] = result
    return results
