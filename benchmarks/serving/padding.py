"""Measures the share of padding among the tokens that run, from the server's metrics."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator

import bertscope

from benchmarks.lib.measure import Claim
from benchmarks.lib.serving import Running, serving
from benchmarks.lib.texts import texts_of_lengths

CALLERS = 8
TEXTS = 400


def claims(rounds: int) -> Iterator[Claim]:
    """Measures the share under a load of mixed lengths, 8 to 128 tokens: CALLERS callers, one text or ten texts a call."""
    del rounds  # a share, not a time: one long round is enough
    draw = random.Random(5)
    texts = texts_of_lengths([draw.randint(8, 128) for _ in range(TEXTS)], mask=True)
    with serving() as server:
        for size in (1, 10):
            share = asyncio.run(_load(server, texts, size))
            what = f"padding of a mixed load, 8 to 128 tokens, {CALLERS} callers, {size} text{'s' * (size > 1)} a call"
            yield Claim(what, f"{share:.1%}", "", share, (share, share), "under 10 %")


async def _load(server: Running, texts: list[str], size: int) -> float:
    def tokens() -> tuple[float, float]:
        name = "bertscope_batch_tokens_total"
        return server.metric(name, kind="real"), server.metric(name, kind="padding")

    parts = [texts[begin : begin + size] for begin in range(0, len(texts), size)]
    before = tokens()
    async with bertscope.AsyncClient(server.target) as client:

        async def caller() -> None:
            while parts:
                await client.fill_mask(parts.pop(), top_k=1)

        await asyncio.gather(*(caller() for _ in range(CALLERS)))
    real, padding = (after - earlier for after, earlier in zip(tokens(), before, strict=True))
    return padding / (real + padding)
