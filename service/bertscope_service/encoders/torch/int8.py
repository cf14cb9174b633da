"""Implements linear layers of 8-bit integers: weights are integers in the file, inputs are quantised at run time.

Each row of an input (a token) has its own scale, so that a text's result does not depend on the texts that share its batch;
PyTorch's own dynamic layers have one scale for the whole batch. Weights have one scale for each output.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from bertscope_service.encoders.torch.integer_products import integer_product
from bertscope_service.encoders.torch.quantization import LARGEST, QUANTIZED, IntegerMatrix, Quantization
from bertscope_service.errors import Unsupported

TINY = 1e-30
"""Rows whose largest number is smaller count as zero."""


class Int8Linear(torch.nn.Module):
    """A linear layer x W^T + b, [..., in] -> [..., out], float32 to float32. It has no gradient."""

    def __init__(self, matrix: IntegerMatrix, bias: torch.Tensor | None) -> None:
        super().__init__()
        self.product = integer_product(matrix.values.device)(matrix)
        self.bias = bias

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.reshape(-1, x.shape[-1])
        # Two reductions are faster than one of the absolute values, which would be stored first.
        step = torch.maximum(rows.amax(dim=1, keepdim=True), rows.amin(dim=1, keepdim=True).neg_())
        step = step.clamp_(min=TINY).div_(LARGEST)
        product: torch.Tensor = self.product(rows * step.reciprocal()).mul_(step)
        if self.bias is not None:
            product.add_(self.bias)
        return product.view(*x.shape[:-1], product.shape[-1])


class Int8Embedding(torch.nn.Module):
    """An embedding that decodes rows of an integer matrix: int64 [...] -> float32 [..., columns]."""

    def __init__(self, matrix: IntegerMatrix) -> None:
        super().__init__()
        self.values, self.scales = matrix.values, matrix.scales

    @property
    def weight(self) -> torch.Tensor:
        """The decoded matrix, float32: some layers read all positions at once."""
        return IntegerMatrix(self.values, self.scales).decode()

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.values[ids].float().mul_(self.scales[ids].unsqueeze(-1))


def settle_precision(stored: Quantization | None, asked: str) -> str:
    """Returns the precision in which weights stored like this run. Integer precisions can't be requested: plain weights run in
    fp32.

    Raises Unsupported for weights in few bits with half precision.
    """
    if stored is None:
        return "fp32" if asked in QUANTIZED else asked
    if asked not in ("fp32", *QUANTIZED):
        message = f"the weights are stored in {stored.bits} bits and run in fp32, not in {asked}; load them in fp32"
        raise Unsupported(message, "PRECISION_UNSUPPORTED", precision=asked)
    return stored.kind


def use_integers(model: torch.nn.Module, integers: Mapping[str, IntegerMatrix], keep: frozenset[str]) -> None:
    """Replaces the linear layers and embeddings of a model whose weights are known as integers, in place and on the model's
    device; modules of a class named in `keep` stay decoded.

    A name in `integers` may lack the model's base prefix. Weights that are tied to one of them count as that one.
    """
    named = dict(model.named_modules())
    prefix = getattr(model, "base_model_prefix", "")
    found: dict[int, IntegerMatrix] = {}
    for name, matrix in integers.items():
        path = name.removesuffix(".weight")
        module = named.get(path) or named[f"{prefix}.{path}"]
        weight = module.get_parameter("weight")
        found[weight.data_ptr()] = matrix.to(weight.device)
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
