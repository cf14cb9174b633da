"""What a small call on an idle server costs beyond the forward pass itself."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator

import bertscope
import torch
from bertscope_service.analyses.cloze import ClozePlan, ClozeQuery
from bertscope_service.encoders.torch_encoder import TorchEncoder
from bertscope_service.sources import EMBEDDED_FOLDER
from bertscope_service.tokenization import TextTokenizer

from benchmarks.measure import Claim, seconds
from benchmarks.serving import serving

TEXT = "Paris is the capital of [MASK]."
CALLS = 50


def claims(rounds: int) -> Iterator[Claim]:
    """Milliseconds at the median: the call from its client, and the encoder on the same row in-process, CALLS each in turn."""
    encoder = TorchEncoder.load(EMBEDDED_FOLDER, "bert", device=torch.device("cpu"), precision="fp32")
    tokenizer = TextTokenizer.load(EMBEDDED_FOLDER, encoder.shape.max_tokens)
    sequence, observer = ClozePlan(ClozeQuery((TEXT,), 5, (), truncate=False), tokenizer).rows[0]

    @torch.inference_mode()
    def bare() -> None:
        type(observer).run(encoder, encoder.begin([sequence]), None, [observer])

    with serving() as server, bertscope.Client(server.target) as client:
        blocks = [(_median(lambda: client.fill_mask(TEXT)), _median(bare)) for _ in range(rounds + 1)]
    # The first round warmed both sides up.
    calls, passes = zip(*blocks[1:], strict=True)
    over = [call - alone for call, alone in zip(calls, passes, strict=True)]
    middle = statistics.median
    yield Claim(
        "one small call on an idle server / the bare forward pass; the ratio column is the overhead in ms",
        f"{middle(calls):.2f} ms",
        f"{middle(passes):.2f} ms",
        middle(over),
        (min(over), max(over)),
        "under 1 ms",
    )


def _median(work: Callable[[], object]) -> float:
    """Milliseconds, of CALLS one after the other."""
    return 1000 * statistics.median(seconds(work) for _ in range(CALLS))
