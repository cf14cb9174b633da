"""Measures the cost of a small call on an idle server beyond the forward pass itself."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterator
from statistics import median

import bertscope
import torch
from bertscope_service.analyses.cloze import ClozePlan, ClozeQuery
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.embedded import EMBEDDED_FOLDER
from bertscope_service.encoders.torch.loading import load_encoder

from benchmarks.lib.background import TEXT
from benchmarks.lib.measure import Claim, milliseconds, seconds
from benchmarks.lib.options import ROUNDS
from benchmarks.lib.serving import serving

OPTIONS = (ROUNDS,)
CALLS = 50


def claims(options: Namespace) -> Iterator[Claim]:
    """Measures medians of the call from its client, and of the encoder on the same row in-process, CALLS each in turn."""
    encoder = load_encoder(EMBEDDED_FOLDER, "bert", device=torch.device("cpu"), precision="fp32")
    tokenizer = TextTokenizer.load(EMBEDDED_FOLDER, encoder.shape.max_tokens)
    sequence, observer = ClozePlan(ClozeQuery((TEXT,), 5, (), truncate=False), tokenizer).rows[0]

    @torch.inference_mode()
    def bare() -> None:
        type(observer).run(encoder, encoder.begin([sequence]), None, [observer])

    with serving() as server, bertscope.Client(server.target) as client:
        blocks = [(_median(lambda: client.fill_mask(TEXT)), _median(bare)) for _ in range(options.rounds + 1)]
    # The first round warmed both sides up.
    calls, passes = zip(*blocks[1:], strict=True)
    over = [1000 * (call - alone) for call, alone in zip(calls, passes, strict=True)]
    what = "one small call on an idle server / the bare forward pass; the ratio column is the overhead in ms"
    ours, theirs = (milliseconds(median(side)) for side in (calls, passes))
    yield Claim(what, ours, theirs, median(over), (min(over), max(over)), "under 1 ms")


def _median(work: Callable[[], object]) -> float:
    """Returns the median seconds of CALLS calls, one after the other."""
    return median(seconds(work) for _ in range(CALLS))
