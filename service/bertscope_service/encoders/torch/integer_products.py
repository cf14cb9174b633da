"""Multiplies activations in 8 bits by weights in 8 bits, exactly, on every machine.

CPUs with VNNI or AMX add products of unsigned by signed bytes in 32 bits. With AMX, oneDNN rounds the sum to float32 before it
takes off what the unsigned codes' zero adds, so that the fifth digit was wrong on a Xeon: float32 represents every integer up
to 2^24, so there a matrix is split along its inputs such that no sum can exceed that. Other x86 CPUs (AMD up to Zen 3, Intel
up to Skylake) first add two products in 16 bits, which overflow; there the positive and the negative codes, of 7 bits each,
are multiplied one after the other. Everywhere else (ARM, GPUs) the codes are multiplied as float32, by a matrix that is split
likewise. All four give the same numbers, to the last bit.
"""

from __future__ import annotations

import platform
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cache
from itertools import count

import torch

from bertscope_service.encoders.torch.packing import can_pack, packed_product, packed_weight
from bertscope_service.encoders.torch.quantization import LARGEST, IntegerMatrix

ZERO = 128
"""The unsigned code of 0."""

ROUNDING = 1.5 * 2**23
"""From here on neighbouring float32 numbers are 1 apart; a multiple of 256."""

EXACT = 2**24
"""Every integer up to this one is a float32."""

TRIED, TRIED_ROWS, TRIED_COLUMNS = 3072, 48, 64
"""The size of a trial: sums of unsigned codes reach 2^26 there. On a Xeon with AMX, 3 rows were exact and 33 were not."""

SPREAD = 7919
"""A prime: its multiples pass through all codes."""

X86 = frozenset({"x86_64", "AMD64"})
"""Names of the processors on which oneDNN's products of integers are fast; on others it may multiply number by number."""


class IntegerProduct(torch.nn.Module, ABC):
    """The product of rounded activations and a matrix of integers."""

    fast = False
    """True if it takes clearly less time than a product in float32."""

    def __init__(self, matrix: IntegerMatrix) -> None:
        super().__init__()
        self.scales = matrix.scales

    @abstractmethod
    def forward(self, steps: torch.Tensor) -> torch.Tensor:
        """Returns float32 [rows, out] = scales * (round(steps) W^T), of float32 `steps` [rows, in] from -127 to 127, which it
        may overwrite. A row that is not a number gives numbers without meaning, and changes no other row."""


class WholeProduct(IntegerProduct):
    """oneDNN's product of unsigned codes (0 is `ZERO`) and signed weights, summed in 32 bits. It takes VNNI."""

    fast = True

    def __init__(self, matrix: IntegerMatrix) -> None:
        super().__init__(matrix)
        self.parts = _PackedParts(self._parts(matrix.values))

    def _parts(self, values: torch.Tensor) -> Sequence[torch.Tensor]:
        return (values,)

    def forward(self, steps: torch.Tensor) -> torch.Tensor:
        codes = _bytes(steps, ZERO)
        if len(self.parts.packed) == 1:
            return self.parts.products(codes, ZERO, self.scales)[0]
        return _total(self.parts.products(codes, ZERO)).mul_(self.scales)


class SplitProduct(WholeProduct):
    """The same in parts whose sums of unsigned codes, too, are exact in float32."""

    def _parts(self, values: torch.Tensor) -> Sequence[torch.Tensor]:
        return exact_parts(values, LARGEST + ZERO)


class HalvesProduct(IntegerProduct):
    """oneDNN's product of the positive codes, less that of the negative ones: with 7 bits a sum of two products fits into 16.

    Weights take a byte each, as in `WholeProduct`; the work is twice that, about as much as in float32.
    """

    def __init__(self, matrix: IntegerMatrix) -> None:
        super().__init__(matrix)
        self.parts = _PackedParts(exact_parts(matrix.values))

    def forward(self, steps: torch.Tensor) -> torch.Tensor:
        rows = len(steps)
        products = self.parts.products(_bytes(torch.cat((steps, -steps)).clamp_(min=0), 0), 0)
        return _total([product[:rows].sub_(product[rows:]) for product in products]).mul_(self.scales)


class FloatProduct(IntegerProduct):
    """The product of codes and weights as float32. Weights take four bytes each."""

    def __init__(self, matrix: IntegerMatrix) -> None:
        super().__init__(matrix)
        parts = exact_parts(matrix.values)
        self.widths = [part.shape[1] for part in parts]
        self.packs = matrix.values.device.type == "cpu" and can_pack(torch.float32)
        self.weights = [packed_weight(part.float()) if self.packs else part.float() for part in parts]

    def forward(self, steps: torch.Tensor) -> torch.Tensor:
        product = packed_product if self.packs else torch.nn.functional.linear
        parts = zip(steps.round_().split(self.widths, dim=1), self.weights, strict=True)
        return _total([product(part, weight) for part, weight in parts]).mul_(self.scales)


def exact_parts(values: torch.Tensor, largest: int = LARGEST) -> Sequence[torch.Tensor]:
    """Splits an integer matrix [out, in] along its inputs, into as few equal parts as have only products with codes up to
    `largest` that are exact in float32, in whatever order they are summed."""
    for number in count(1):
        parts = values.chunk(number, dim=1)
        if all(int(part.abs().sum(dim=1, dtype=torch.int64).amax()) * largest <= EXACT for part in parts if part.numel()):
            return parts
    raise AssertionError("a single column is exact")


def integer_product(device: torch.device) -> type[IntegerProduct]:
    """Returns the product that a device can do: on an x86 CPU the first exact one of `WholeProduct`, `SplitProduct` and
    `HalvesProduct`, `FloatProduct` elsewhere."""
    return _cpu_product() if device.type == "cpu" else FloatProduct


@cache
def _cpu_product() -> type[IntegerProduct]:
    if platform.machine() in X86:
        for product in (WholeProduct, SplitProduct, HalvesProduct):
            if _is_exact(product):
                return product
    return FloatProduct


def _is_exact(product: type[IntegerProduct]) -> bool:
    """Tries a product with the largest numbers, and with sums near 0 that those of unsigned codes must not lose, in as many
    rows and columns as kernels for tiles (AMX) want; asking the CPU would not do, since oneDNN may be told to use less."""
    rows, out = TRIED_ROWS, TRIED_COLUMNS
    codes = (torch.arange(rows * TRIED, dtype=torch.int64, device="cpu") * SPREAD % (2 * LARGEST + 1) - LARGEST).view(
        rows, TRIED
    )
    codes[0], codes[1] = LARGEST, -LARGEST
    values = torch.full((out, TRIED), LARGEST, dtype=torch.int64, device="cpu")
    values[::2] = codes[torch.arange(0, out, 2, dtype=torch.int64, device="cpu") % rows].flip(1)
    expected = (codes @ values.T).float()
    matrix = IntegerMatrix(values.to(torch.int8), torch.ones(out, dtype=torch.float32, device="cpu"))
    try:
        found = product(matrix)(codes.float())
    except (AttributeError, NotImplementedError, RuntimeError):
        return False
    return torch.equal(found, expected)


def _bytes(steps: torch.Tensor, zero: int) -> torch.Tensor:
    """Returns the nearest integers plus `zero`, as uint8. Overwrites `steps`.

    The addition rounds to the nearest integer, which is then in the lowest byte: far faster than PyTorch's conversion.
    """
    return steps.add_(ROUNDING + zero).view(torch.int32).to(torch.uint8)


def _total(products: Sequence[torch.Tensor]) -> torch.Tensor:
    """Returns the sum of products of integers in float32, rounded once. May overwrite the first."""
    if len(products) == 1:
        return products[0]
    total = products[0].to(torch.int32)
    for product in products[1:]:
        total += product.to(torch.int32)
    return total.float()


class _PackedParts(torch.nn.Module):
    """Parts of a matrix in oneDNN's own layout, along its inputs."""

    def __init__(self, parts: Sequence[torch.Tensor]) -> None:
        super().__init__()
        self.widths = [part.shape[1] for part in parts]
        self.packed = [torch.ops.onednn.qlinear_prepack(part.contiguous(), None) for part in parts]
        self.zeros = torch.zeros(len(parts[0]), dtype=torch.int64, device=parts[0].device)

    def products(self, codes: torch.Tensor, zero: int, scales: torch.Tensor | None = None) -> list[torch.Tensor]:
        """Returns float32 [rows, out] = scales * (codes - zero) W^T of each part, of uint8 codes [rows, in]."""
        given = (codes.new_ones(1, dtype=torch.float32) if scales is None else scales, self.zeros)
        parts = zip(codes.split(self.widths, dim=1), self.packed, strict=True)
        return [_onednn_product(part.contiguous(), packed, zero, *given) for part, packed in parts]


def _onednn_product(
    codes: torch.Tensor, packed: torch.Tensor, zero: int, scales: torch.Tensor, zeros: torch.Tensor
) -> torch.Tensor:
    output: torch.Tensor = torch.ops.onednn.qlinear_pointwise(
        codes, 1.0, zero, packed, scales, zeros, None, 1.0, 0, torch.float32, "none", [], ""
    )
    return output
