"""Measures the encoder alone: cloze, gates and attention maps of a bert-base in every number format."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import torch
import transformers
from bertscope_service.analyses.observers.masks import MaskObserver
from bertscope_service.encoders.base import Capabilities
from bertscope_service.encoders.edits import Edits
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.encoders.torch.architectures.architecture import Architecture
from bertscope_service.encoders.torch.architectures.attention import register_attention
from bertscope_service.encoders.torch.encoder import DTYPES, TorchEncoder

from benchmarks.gpu.device import Limits, seconds, tera
from benchmarks.gpu.report import Row

LENGTH = 128


def measure_encoder(device: torch.device, limits: Limits, rows: int, config: transformers.BertConfig) -> Iterator[Row]:
    """Runs `rows` texts of LENGTH tokens in a batch, against the model as transformers runs it and against the limits."""
    torch.manual_seed(5)
    reference = transformers.BertForMaskedLM(config).eval().to(device)
    sequences = [TokenSequence(torch.randint(999, 30000, (LENGTH,)).tolist(), [0] * LENGTH) for _ in range(rows)]
    ids = torch.tensor([sequence.ids for sequence in sequences], device=device)
    for precision in ("fp32", "bf16", "fp16"):
        # A separate configuration: choosing an attention function writes into it.
        model = transformers.BertForMaskedLM(transformers.BertConfig(**config.to_dict())).eval().to(device, DTYPES[precision])
        model.load_state_dict(reference.state_dict())
        theirs = seconds(device, partial(_pipeline, model, ids))
        model.set_attn_implementation(register_attention())
        encoder = TorchEncoder(Architecture(model), "bert", device, precision, Capabilities(masked_lm=True))
        work = encoder_flops(config, rows * LENGTH, LENGTH)
        yield from _rows(encoder, sequences, precision, theirs, work, limits)


def encoder_flops(config: transformers.BertConfig, tokens: int, length: int) -> float:
    """Returns the operations of all layers, for this many tokens in texts of `length`: twice the multiply-adds of the
    projections, of attention and of the two feed-forward matrices."""
    per_token = 4 * config.hidden_size**2 + 2 * config.hidden_size * config.intermediate_size + 2 * length * config.hidden_size
    return float(2 * config.num_hidden_layers * per_token * tokens)


def _rows(
    encoder: TorchEncoder, sequences: list[TokenSequence], precision: str, theirs: float, work: float, limits: Limits
) -> Iterator[Row]:
    rows, device = len(sequences), encoder.device
    observers = [MaskObserver((LENGTH // 2,), 5, np.zeros((1, 0), dtype=np.int64)) for _ in sequences]
    shape = (encoder.shape.layers, encoder.shape.heads)
    closed = Edits(np.ones(shape, dtype=np.float32), np.zeros(shape, dtype=np.float32))
    closed.keep[-1, 1] = 0

    def cloze(gates: Edits | None = None) -> None:
        placed = encoder.place_edits([gates] * rows)
        readout = MaskObserver.run(encoder, encoder.begin(sequences), placed, observers)
        readout.deal(tuple(tensor.cpu().numpy() for tensor in readout.tensors))

    def maps() -> None:
        held: list[torch.Tensor] = []
        watch = dict.fromkeys(range(encoder.shape.layers), held.append)
        encoder.advance(encoder.begin(sequences[:16]), encoder.shape.layers, None, watch)
        for tensor in held:
            tensor.cpu()

    def texts(taken: float) -> str:
        return f"{rows / taken:.0f} texts/s"

    ours, gated = seconds(device, cloze), seconds(device, lambda: cloze(closed))
    what = f"cloze, {precision}, {rows} x {LENGTH}"
    yield f"{what} / transformers, all logits", texts(ours), texts(theirs), f"{theirs / ours:.2f}x"
    rate = work / ours
    limit = tera(limits.flops)
    yield f"{what} / the bf16 peak", tera(rate), limit, f"{rate / limits.flops:.0%}"
    yield f"{what}, a gated head in each / untouched", texts(gated), texts(ours), f"{ours / gated:.2f}x"
    watched = min(16, rows)
    rate = watched * encoder.shape.layers * encoder.shape.heads * LENGTH * LENGTH * 4 / seconds(device, maps)
    what = f"maps to the host, {precision}, {watched} x {LENGTH} / the copy"
    yield what, f"{rate / 1e9:.1f} GB/s", f"{limits.copy_bytes / 1e9:.1f} GB/s", f"{rate / limits.copy_bytes:.0%}"


@torch.inference_mode()
def _pipeline(model: transformers.BertForMaskedLM, ids: torch.Tensor) -> None:
    """Computes as a fill-mask pipeline does: logits everywhere, then softmax and top k at one position."""
    model(input_ids=ids).logits[:, LENGTH // 2].float().softmax(-1).topk(5)[0].cpu()
