"""Implements linear layers of 8-bit integers, on CPUs: weights are integers in the file, inputs are quantised at run time.

Each row of an input (a token) has its own scale, so that a text's result does not depend on the texts that share its batch;
PyTorch's own dynamic layers have one scale for the whole batch. Weights have one scale for each output. The product is
oneDNN's, of unsigned inputs (zero is 128) and signed weights, summed in 32 bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import torch

from bertscope_service.encoders.torch.quantization import INT8, LARGEST, QUANTIZED, IntegerMatrix, Quantization
from bertscope_service.errors import Unsupported

ZERO = 128
ROUNDING = 1.5 * 2**23
"""From here on neighbouring float32 numbers are 1 apart; a multiple of 256."""

TINY = 1e-30
"""Rows whose largest number is smaller count as zero."""


class Int8Linear(torch.nn.Module):
    """A linear layer x W^T + b, [..., in] -> [..., out], float32 to float32. It has no gradient."""

    def __init__(self, matrix: IntegerMatrix, bias: torch.Tensor | None) -> None:
        super().__init__()
        self.packed = torch.ops.onednn.qlinear_prepack(matrix.values, None)
        self.scales = matrix.scales
        self.zeros = torch.zeros(len(matrix.scales), dtype=torch.int64, device="cpu")
        self.bias = bias

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.reshape(-1, x.shape[-1])
        # Two reductions are faster than one of the absolute values, which would be stored first.
        step = torch.maximum(rows.amax(dim=1, keepdim=True), rows.amin(dim=1, keepdim=True).neg_())
        step = step.clamp_(min=TINY).div_(LARGEST)
        # The addition rounds to the nearest integer, which is then in the lowest byte: far faster than PyTorch's conversion.
        codes = (rows * step.reciprocal()).add_(ROUNDING + ZERO).view(torch.int32).to(torch.uint8)
        product = _product(codes, self.packed, self.scales, self.zeros).mul_(step)
        if self.bias is not None:
            product.add_(self.bias)
        return product.view(*x.shape[:-1], len(self.scales))


class Int8Embedding(torch.nn.Module):
    """An embedding that decodes rows of an integer matrix: int64 [...] -> float32 [..., columns]."""

    def __init__(self, matrix: IntegerMatrix) -> None:
        super().__init__()
        self.values, self.scales = matrix.values, matrix.scales

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.values[ids].float().mul_(self.scales[ids].unsqueeze(-1))


def _product(codes: torch.Tensor, packed: torch.Tensor, scales: torch.Tensor, zeros: torch.Tensor) -> torch.Tensor:
    """Returns float32 [rows, out] = scales * (codes - ZERO) W^T, of uint8 codes [rows, in]."""
    output: torch.Tensor = torch.ops.onednn.qlinear_pointwise(
        codes, 1.0, ZERO, packed, scales, zeros, None, 1.0, 0, torch.float32, "none", [], ""
    )
    return output


@cache
def has_kernel() -> bool:
    """Returns whether this build of PyTorch and this CPU multiply integers, without the overflow of CPUs without VNNI."""
    matrix = IntegerMatrix(
        torch.full((16, 64), LARGEST, dtype=torch.int8, device="cpu"), torch.ones(16, dtype=torch.float32, device="cpu")
    )
    codes = torch.full((1, 64), 255, dtype=torch.uint8, device="cpu")
    try:
        packed = torch.ops.onednn.qlinear_prepack(matrix.values, None)
        found = _product(codes, packed, matrix.scales, torch.zeros(16, dtype=torch.int64, device="cpu"))
    except (AttributeError, NotImplementedError, RuntimeError):
        return False
    return bool((found == 64 * LARGEST * (255 - ZERO)).all())


def check_int8(device: torch.device) -> None:
    """Raises Unsupported for a device that can't multiply integers here."""
    if device.type != "cpu":
        message = f"PyTorch runs int8 models on CPUs only here, not on {device}; load it with device cpu, or use half precision"
        raise Unsupported(message, "INT8_UNSUPPORTED", device=str(device))
    if not has_kernel():
        message = (
            "this CPU or this build of PyTorch has no exact int8 product (it takes VNNI); load the model that it was made from"
        )
        raise Unsupported(message, "INT8_UNSUPPORTED", device=str(device))


def settle_precision(stored: Quantization | None, asked: str, device: torch.device) -> str:
    """Returns the precision in which weights stored like this run. Integer precisions can't be requested: plain weights run in
    fp32.

    Raises Unsupported for weights in few bits with half precision, and for integers on a device that can't multiply them.
    """
    if stored is None:
        return "fp32" if asked in QUANTIZED else asked
    if asked not in ("fp32", *QUANTIZED):
        message = f"the weights are stored in {stored.bits} bits and run in fp32, not in {asked}; load them in fp32"
        raise Unsupported(message, "PRECISION_UNSUPPORTED", precision=asked)
    if stored.kind == INT8:
        check_int8(device)
    return stored.kind


def use_integers(model: torch.nn.Module, integers: Mapping[str, IntegerMatrix], keep: frozenset[str]) -> None:
    """Replaces the linear layers and embeddings of a model whose weights are known as integers, in place; modules of a class
    named in `keep` stay decoded.

    A name in `integers` may lack the model's base prefix. Weights that are tied to one of them count as that one.
    """
    named = dict(model.named_modules())
    prefix = getattr(model, "base_model_prefix", "")
    found: dict[int, IntegerMatrix] = {}
    for name, matrix in integers.items():
        path = name.removesuffix(".weight")
        module = named.get(path) or named[f"{prefix}.{path}"]
        found[module.get_parameter("weight").data_ptr()] = matrix
    _replace(model, found, keep)


def _replace(module: torch.nn.Module, found: Mapping[int, IntegerMatrix], keep: frozenset[str]) -> None:
    for name, child in module.named_children():
        weight = getattr(child, "weight", None)
        matrix = None if weight is None else found.get(weight.data_ptr())
        if matrix is not None and isinstance(child, torch.nn.Linear):
            setattr(module, name, Int8Linear(matrix, child.get_parameter("bias") if child.bias is not None else None))
        elif matrix is not None and isinstance(child, torch.nn.Embedding):
            setattr(module, name, Int8Embedding(matrix))
        elif type(child).__name__ not in keep:
            _replace(child, found, keep)
