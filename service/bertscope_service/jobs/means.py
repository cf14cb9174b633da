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
    total = np.zeros(())
    rows = ((None, [Row(encoder, sequence, ContextObserver())]) for sequence in sequences)
    async with aclosing(bulk.map(rows)) as groups:
        async for _, (contexts,) in groups:
            total = total + contexts.astype(np.float64)
    return (total / sum(map(len, sequences))).astype(np.float32)
