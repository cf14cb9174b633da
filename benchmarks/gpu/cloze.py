"""Makes batches of cloze as the engine runs them: texts of random tokens with a mask in the middle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import torch
from bertscope_service.analyses.observers.masks import MaskObserver
from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.engine.batch import launch
from bertscope_service.engine.rows import Row

NOTHING_ASKED = np.zeros((1, 0), dtype=np.int64)
TOP_K = 5


class _NoJob:
    """Stands for the call that rows belong to, which nobody traces."""

    timeline = None


def cloze_rows(encoder: Encoder, length: int, count: int) -> list[Row]:
    """Returns so many rows of `length` tokens."""
    draw = np.random.default_rng(5)
    rows = []
    for _ in range(count):
        ids = draw.integers(999, encoder.shape.vocabulary_size, length).tolist()
        rows.append(Row(encoder, TokenSequence(ids, [0] * length), MaskObserver((length // 2,), TOP_K, NOTHING_ASKED)))
    return rows


def cloze_batch(rows: Sequence[Row]) -> Sequence[Any]:
    """Runs rows as one batch, beside the engine: launches it, and waits for its results."""
    for row in rows:
        row.job = cast(Any, _NoJob())
        row.index, row.length = 0, len(row.sequence)
    with torch.inference_mode():
        return launch(rows, rows[0].encoder.device, 0.0).results()
