"""Measures how many tokens a batch may have on a GPU before it takes longer than a small one."""

from __future__ import annotations

import logging
import statistics
from collections.abc import Awaitable, Callable

from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.engine.engine import Engine
from bertscope_service.models.timed_runs import Trial

RUNS = 5
"""Timed runs of each size, after one that is not."""

FREE = 1.25
"""A batch is free while it takes no more than this many times what a single text takes."""

logger = logging.getLogger(__name__)


async def measure_saturation(engine: Engine, encoder: Encoder, text: TokenSequence) -> None:
    """Times batches of copies of a text, twice as many each time, and tells the engine how many tokens are free. Does nothing
    on a CPU, where each token takes its time. The device is leased for one size at a time. Raises the errors of the encoder."""
    if encoder.device.type != "cuda":
        return

    async def seconds(copies: int) -> float:
        async with engine.lease(encoder.device, refuse=False) as lease:
            return statistics.median((await Trial(encoder, lease).times([[text] * copies] * (1 + RUNS)))[1:])

    copies = await most_free(seconds, engine.batch_tokens(encoder.device) // len(text))
    engine.note_saturation(encoder, copies * len(text))
    logger.info("a batch of up to %d tokens takes no longer than one text on %s", copies * len(text), encoder.device)


async def most_free(seconds: Callable[[int], Awaitable[float]], most: int) -> int:
    """Returns the largest power of two, at most `most`, of texts that take no longer than one; `seconds` times so many."""
    free, alone = 1, await seconds(1)
    while 2 * free <= most and await seconds(2 * free) <= FREE * alone:
        free *= 2
    return free
