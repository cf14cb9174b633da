"""Products of matrices whose factors are rounded as a GPU's tensor cores round them, computed in float32 on any machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

Round = Callable[[torch.Tensor], torch.Tensor]
"""Rounds a factor [..., n, inner] of a product that sums over `inner`."""

FUNCTIONS: dict[str, Any] = {
    "linear": torch.nn.functional.linear,
    "matmul": torch.matmul,
    "attention": torch.nn.functional.scaled_dot_product_attention,
}
LOST_BITS = 13
"""The bits behind the point that float32 has and TF32 lacks."""
LARGEST_E4M3 = 448.0
"""The largest number of float8_e4m3fn."""
TINY = 1e-30


def tf32(factor: torch.Tensor) -> torch.Tensor:
    """Returns the nearest numbers with 10 bits behind the point, the larger in magnitude of two (`cvt.rna.tf32`)."""
    bits = factor.contiguous().view(torch.int32) + (1 << (LOST_BITS - 1))
    return (bits & -(1 << LOST_BITS)).view(torch.float32)


def e4m3(factor: torch.Tensor) -> torch.Tensor:
    """Returns the nearest numbers in 8-bit floating point, with a scale for each row: a token, or an output of a weight."""
    scale = factor.abs().amax(dim=-1, keepdim=True).clamp_min(TINY) / LARGEST_E4M3
    return (factor / scale).to(torch.float8_e4m3fn).float() * scale


class Rounded(TorchFunctionMode):
    """Rounds the factors of products inside a `with`; of products of activations (attention) only with `everywhere`.

    Weights of at least `largest` rows are left as they are: the output layer, with as many as the vocabulary has entries.
    """

    def __init__(self, rounded: Round, *, everywhere: bool, largest: int | None = None) -> None:
        super().__init__()
        self._rounded, self._everywhere, self._largest = rounded, everywhere, largest
        self._weights: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is FUNCTIONS["linear"] and (self._largest is None or len(args[1]) < self._largest):
            return func(self._rounded(args[0]), self._weight(args[1]), *args[2:], **kwargs)
        if func is FUNCTIONS["matmul"] and self._everywhere:
            return func(*(self._rounded(factor) for factor in args), **kwargs)
        if func is FUNCTIONS["attention"] and self._everywhere:
            return self._attention(*args, **kwargs)
        return func(*args, **kwargs)

    def _weight(self, weight: torch.Tensor) -> torch.Tensor:
        """Returns a rounded weight, which is kept, with the weight so that no other takes its number."""
        if id(weight) not in self._weights:
            self._weights[id(weight)] = weight, self._rounded(weight)
        return self._weights[id(weight)][1]

    def _attention(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attn_mask: torch.Tensor | None = None,
        scale: float | None = None,
    ) -> torch.Tensor:
        """Returns attention with a float32 softmax."""
        scores = self._rounded(query) @ self._rounded(key).mT * (query.shape[-1] ** -0.5 if scale is None else scale)
        if attn_mask is not None:
            scores = scores.masked_fill(~attn_mask, -torch.inf) if attn_mask.dtype == torch.bool else scores + attn_mask
        # Rounded along the keys, over which the second product sums.
        return self._rounded(scores.softmax(dim=-1)) @ self._rounded(value.mT).mT
