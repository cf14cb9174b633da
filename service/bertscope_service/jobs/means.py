"""Takes the mean context of every head over reference texts."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing

import numpy as np
from numpy.typing import NDArray

from bertscope_service.analyses.means import ContextObserver
from bertscope_service.encoders.base import Encoder, TokenSequence
from bertscope_service.engine.rows import Row
from bertscope_service.jobs.bulk import BulkRunner


async def mean_contexts(encoder: Encoder, sequences: Sequence[TokenSequence], bulk: BulkRunner) -> NDArray[np.float32]:
    """[layers, heads, head_size]: every head's context, averaged over all real tokens of the sequences together."""
    total, lengths = np.zeros(()), [len(sequence) for sequence in sequences]
    async with aclosing(bulk.results(lengths, lambda row: Row(encoder, sequences[row], ContextObserver()))) as results:
        async for contexts in results:
            total = total + contexts.astype(np.float64)
    return (total / sum(lengths)).astype(np.float32)
