"""Measures the share of padding among the tokens that run, from the server's metrics."""

from __future__ import annotations

import random
from argparse import Namespace
from collections.abc import Iterator

from benchmarks.lib.measure import Claim
from benchmarks.lib.options import ROUNDS
from benchmarks.lib.serving import serving
from benchmarks.lib.texts import texts_of_lengths
from benchmarks.serving.cloze import CALLERS, Callers

OPTIONS = (ROUNDS,)
TEXTS = 400


def claims(options: Namespace) -> Iterator[Claim]:
    """Measures the share under a load of mixed lengths, 8 to 128 tokens: CALLERS callers, one text or ten texts a call.

    It is no time, so that one long round is enough.
    """
    draw = random.Random(5)
    texts = texts_of_lengths([draw.randint(8, 128) for _ in range(TEXTS)], mask=True)
    with serving() as server, Callers(server.target) as callers:
        for size in (1, 10):
            before = server.tokens()
            callers.ask(texts, size)
            real, padding = (after - earlier for after, earlier in zip(server.tokens(), before, strict=True))
            share = padding / (real + padding)
            what = f"padding of a mixed load, 8 to 128 tokens, {CALLERS} callers, {size} text{'s' * (size > 1)} a call"
            yield Claim(what, f"{share:.1%}", "", share, (share, share), "under 10 %")
