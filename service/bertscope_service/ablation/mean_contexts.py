"""Computes the mean context of every head over reference texts."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing

import numpy as np
from numpy.typing import NDArray

from bertscope_service.analyses.observers.means import ContextObserver
from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.engine.bulk import BulkRunner
from bertscope_service.engine.rows import Row


async def mean_contexts(encoder: Encoder, sequences: Sequence[TokenSequence], bulk: BulkRunner) -> NDArray[np.float32]:
    """Averages every head's context over all real tokens of the sequences together: [layers, heads, head_size]."""
    total, lengths = np.zeros(()), [len(sequence) for sequence in sequences]
    async with aclosing(bulk.results(lengths, lambda row: Row(encoder, sequences[row], ContextObserver()))) as results:
        async for contexts in results:
            total = total + contexts.astype(np.float64)
    return (total / sum(lengths)).astype(np.float32)
