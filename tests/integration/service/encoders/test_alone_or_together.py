"""What a text gives does not depend on the texts that share its batch: other callers', longer ones, gated ones."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from bertscope_service.checkpoints.sources import inspect
from bertscope_service.checkpoints.steps import Int8, Step, WeightOnly
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.edits import Edits
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.models.runtimes import RuntimeRequest, RuntimeSettings, read_encoders

from tests.support.compressed import make
from tests.support.tiny import SENTENCES

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Format:
    """A number format as a user asks for it, and by how much log-probabilities may differ; docs/models.md states the bounds."""

    runtime: str
    precision: str
    bound: float
    step: Step | None = None


FORMATS = {
    "torch-fp32": Format("torch", "fp32", 1e-3),
    "torch-bf16": Format("torch", "bf16", 1.0),
    "torch-fp16": Format("torch", "fp16", 0.2),
    "torch-int8": Format("torch", "fp32", 0, Int8()),
    "torch-weight_only": Format("torch", "fp32", 1e-3, WeightOnly(4, 0)),
    "onnx-fp32": Format("onnx", "fp32", 1e-3),
    "onnx-int8": Format("onnx", "fp32", 0, Int8()),
    "onnx-weight_only-8": Format("onnx", "fp32", 1e-3, WeightOnly(8, 32)),
    "onnx-weight_only-4": Format("onnx", "fp32", 1e-3, WeightOnly(4, 32)),
}
EXPORTED = ("onnx-int8", "onnx-weight_only-8", "onnx-weight_only-4")
"""Each needs an export of its own, which takes seconds."""


@pytest.fixture(scope="module")
def whole(checkpoint: Callable[[str], Path]) -> Path:
    return checkpoint("bert")


@pytest.fixture(
    scope="module", params=[pytest.param(name, marks=pytest.mark.slow) if name in EXPORTED else name for name in FORMATS]
)
def subject(
    request: pytest.FixtureRequest,
    whole: Path,
    quantised: Callable[[Step], Path],
    export_cache: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Encoder, Format]:
    form, folder = FORMATS[request.param], whole
    if form.step is not None:
        onnx = form.runtime == "onnx"
        folder = quantised(form.step) if onnx else make(whole, tmp_path_factory.mktemp(request.param) / "made", form.step)
    source, settings = inspect(folder), RuntimeSettings(export_cache, threads=1)
    (encoder,) = read_encoders(
        source, source.digest(lambda _: None), RuntimeRequest(form.runtime, form.precision, CPU), settings
    )
    return encoder, form


@pytest.fixture(scope="module")
def rows(whole: Path) -> list[TokenSequence]:
    tokenizer = TextTokenizer.load(whole, 64)
    return [tokenizer.encode(text, truncate=True).sequence for text in SENTENCES]


def gated(encoder: Encoder, seed: int) -> Edits:
    """Some heads closed, some uniform, some scaled."""
    rng = np.random.default_rng(seed)
    sizes = encoder.shape.layers, encoder.shape.heads
    keep = rng.choice([0.0, 0.5, 1.0], sizes).astype(np.float32)
    return Edits(keep, ((keep == 0) & (rng.random(sizes) < 0.5)).astype(np.float32))


@torch.inference_mode()
def run(
    encoder: Encoder,
    batch: list[TokenSequence],
    gates: list[Edits | None] | None = None,
    *,
    watch: bool = False,
    count: int = 1,
) -> torch.Tensor:
    """Log-probabilities at the second token of every row, which is read at `count` positions."""
    state = encoder.begin(batch)
    watchers = {1: lambda seen: None} if watch else None
    only = torch.arange(1, count + 1, dtype=torch.int64).expand(len(batch), count)
    encoder.advance(state, encoder.shape.layers, encoder.place_edits(gates or [None] * len(batch)), watchers, only=only)
    places = torch.zeros(len(batch), dtype=torch.int64)
    return encoder.logits(state, torch.arange(len(batch)), places).log_softmax(-1)


@pytest.mark.slow
def test_alone_is_as_in_any_batch(subject: tuple[Encoder, Format], rows: list[TokenSequence]) -> None:
    """Gated and watched neighbours change nothing either."""
    encoder, bound = subject[0], subject[1].bound
    alone = [run(encoder, [row])[0] for row in rows]
    rng = np.random.default_rng(0)
    found = 0.0
    mixed = [(rng.permutation(len(rows))[:size].tolist(), 1 + size % 3) for size in (2, 3, 7, len(rows))]
    for chosen, count in (*mixed, ([5] * 33, 1)):
        together = run(encoder, [rows[index] for index in chosen], count=count)
        found = max(found, *(float((one - alone[index]).abs().max()) for one, index in zip(together, chosen, strict=True)))
    own = gated(encoder, 0)
    changed, batch = run(encoder, rows[3:4], [own])[0], [rows[index] for index in (3, 10, 3, 0, 6)]
    for watch in (False, True):
        together = run(encoder, batch, [None, gated(encoder, 1), own, None, gated(encoder, 2)], watch=watch)
        found = max(found, *(float((together[row] - one).abs().max()) for row, one in ((0, alone[3]), (2, changed))))
    assert found <= bound
    assert float((alone[3] - changed).abs().max()) > 0.01
