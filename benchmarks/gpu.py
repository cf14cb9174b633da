"""The GPU report: the tests marked `gpu`, then how fast the encoder is on the device, as shares of what the device can do.

    make gpu PYTHON=/path/to/python

Uses what that interpreter has (torch, transformers, pytest) and installs nothing. Without a GPU it says so and ends with 0.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import torch
import transformers
from bertscope_service.analyses.masks import MaskObserver
from bertscope_service.encoders.base import Gates, TokenSequence
from bertscope_service.encoders.torch_architectures import Architecture
from bertscope_service.encoders.torch_attention import NAME
from bertscope_service.encoders.torch_encoder import DTYPES, TorchEncoder

ROUNDS = 7
ROWS, LENGTH = 128, 128
Row = tuple[str, str, str, str]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda:0", help="cpu tries this script out on a machine without a GPU")
    parser.add_argument("--rows", type=int, default=ROWS)
    options = parser.parse_args()
    device = torch.device(options.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        print("no GPU: PyTorch sees no CUDA device here, so there is nothing to test or measure")
        return 0
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    print(f"device {name}; torch {torch.__version__}, transformers {transformers.__version__}, Python {sys.version.split()[0]}")
    status = _tests() if device.type == "cuda" else 0
    _table(list(_measure(device, options.rows)))
    return status


def _tests() -> int:
    if importlib.util.find_spec("pytest") is None:
        print("tests: not run, this interpreter has no pytest")
        return 0
    # Without the project's own settings: they name plugins that this interpreter need not have.
    command = [sys.executable, "-m", "pytest", "-q", "-c", "/dev/null", "--rootdir=.", "--import-mode=importlib"]
    return subprocess.run([*command, "-p", "no:cacheprovider", "tests/gpu"], check=False).returncode


def _measure(device: torch.device, rows: int) -> Iterator[Row]:
    """What, ours, the other side or the device's limit, ratio."""
    flops, copy = _matmul_flops(device), _copy_bytes(device)
    yield "bf16 matrix product, 8192 x 8192", f"{flops / 1e12:.1f} TFLOP/s", "", "the limit below"
    yield "copy to the host, pinned, 256 MiB", f"{copy / 1e9:.1f} GB/s", "", ""
    config = transformers.BertConfig()
    torch.manual_seed(5)
    reference = transformers.BertForMaskedLM(config).eval().to(device)
    # Multiply-adds of the encoder alone, twice: 12 layers of 12 h^2 per token, and the attention of each pair of tokens.
    work = rows * LENGTH * 12 * 2 * (12 * config.hidden_size**2 + 2 * LENGTH * config.hidden_size)
    sequences = [TokenSequence(torch.randint(999, 30000, (LENGTH,)).tolist(), [0] * LENGTH) for _ in range(rows)]
    ids = torch.tensor([sequence.ids for sequence in sequences], device=device)
    for precision in ("fp32", "bf16", "fp16"):
        # A configuration of its own: choosing an attention function writes into it.
        model = transformers.BertForMaskedLM(transformers.BertConfig()).eval().to(device, DTYPES[precision])
        model.load_state_dict(reference.state_dict())
        theirs = _seconds(device, partial(_pipeline, model, ids))
        model.set_attn_implementation(NAME)
        encoder = TorchEncoder(Architecture(model), "bert", device, precision, has_head=True)
        yield from _rows(encoder, sequences, precision, theirs, work, flops, copy)


def _rows(
    encoder: TorchEncoder,
    sequences: list[TokenSequence],
    precision: str,
    theirs: float,
    work: float,
    flops: float,
    copy: float,
) -> Iterator[Row]:
    rows, device = len(sequences), encoder.device
    observers = [MaskObserver((LENGTH // 2,), 5, np.zeros((1, 0), dtype=np.int64)) for _ in sequences]
    shape = (encoder.shape.layers, encoder.shape.heads)
    closed = Gates(np.ones(shape, dtype=np.float32), np.zeros(shape, dtype=np.float32))
    closed.keep[3, 1] = 0

    def cloze(gates: Gates | None = None) -> None:
        placed = encoder.place_gates([gates] * rows)
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

    ours, gated = _seconds(device, cloze), _seconds(device, lambda: cloze(closed))
    what = f"cloze, bert-base {precision}, {rows} x {LENGTH}"
    yield f"{what} / the model with all logits", texts(ours), texts(theirs), f"{theirs / ours:.2f}x"
    rate = work / ours
    yield f"{what} / the bf16 limit", f"{rate / 1e12:.1f} TFLOP/s", f"{flops / 1e12:.1f} TFLOP/s", f"{rate / flops:.0%}"
    yield f"{what}, a head gated in each / untouched", texts(gated), texts(ours), f"{ours / gated:.2f}x"
    rate = 16 * encoder.shape.layers * encoder.shape.heads * LENGTH * LENGTH * 4 / _seconds(device, maps)
    what = f"attention maps to the host, {precision}, 16 x {LENGTH}"
    yield what, f"{rate / 1e9:.1f} GB/s", f"{copy / 1e9:.1f} GB/s", f"{rate / copy:.0%}"


@torch.inference_mode()
def _pipeline(model: transformers.BertForMaskedLM, ids: torch.Tensor) -> None:
    """What a fill-mask pipeline does: logits everywhere, then softmax and top k at one position."""
    model(input_ids=ids).logits[:, LENGTH // 2].float().softmax(-1).topk(5)[0].cpu()


@torch.inference_mode()
def _seconds(device: torch.device, work: Callable[[], object]) -> float:
    """Median over ROUNDS, the device idle before and after each."""
    taken = []
    for _ in range(ROUNDS + 2):
        _synchronize(device)
        began = time.perf_counter()
        work()
        _synchronize(device)
        taken.append(time.perf_counter() - began)
    return statistics.median(taken[2:])


def _synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _matmul_flops(device: torch.device) -> float:
    size = 8192 if device.type == "cuda" else 512
    left = torch.randn(size, size, device=device, dtype=torch.bfloat16)
    return 2 * size**3 / _seconds(device, lambda: left @ left)


def _copy_bytes(device: torch.device) -> float:
    source = torch.empty(256 * 1024 * 1024, dtype=torch.uint8, device=device)
    target = torch.empty_like(source, device="cpu", pin_memory=device.type == "cuda")
    return source.numel() / _seconds(device, lambda: target.copy_(source, non_blocking=True))


def _table(rows: list[Row]) -> None:
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    print(f"\nmedians of {ROUNDS} rounds after two")
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


if __name__ == "__main__":
    sys.exit(main())
