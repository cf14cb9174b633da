"""Rounds weights and inputs as 8-bit integers would be while a model trains, so that it learns to live with the rounding.

Quantization-aware training (Jacob et al. 2018, section 3; of BERT: Zafrir et al. 2019, Q8BERT). Forward, numbers are those of
`Int8Linear` and `Int8Embedding`; backward, rounding counts as the identity (the straight-through estimator of Bengio et al.
2013).
"""

from __future__ import annotations

from typing import Any, cast

import torch

from bertscope_service.encoders.torch.int8 import TINY
from bertscope_service.encoders.torch.quantization import LARGEST, IntegerMatrix


class _StraightThrough(torch.autograd.Function):
    """Returns the rounded numbers; their gradient is that of the exact ones."""

    @staticmethod
    def forward(ctx: Any, exact: torch.Tensor, rounded: torch.Tensor) -> torch.Tensor:
        return rounded.view_as(rounded)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        return gradients[0], None


class FakeInt8Linear(torch.nn.Module):
    """A linear layer whose weight and inputs are rounded, [..., in] -> [..., out]. It shares the parameters of the layer that
    it replaces, under their names."""

    def __init__(self, linear: torch.nn.Linear) -> None:
        super().__init__()
        self.weight, self.bias = linear.weight, linear.bias
        self._rounded: tuple[int, torch.Tensor] | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            step = x.abs().amax(dim=-1, keepdim=True).clamp_(min=TINY).div_(LARGEST)
            rounded = (x * step.reciprocal()).round_().mul_(step)
        weight: torch.Tensor = _StraightThrough.apply(self.weight, self._rounded_weight())
        inputs: torch.Tensor = _StraightThrough.apply(x, rounded)
        return torch.nn.functional.linear(inputs, weight, self.bias)

    def _rounded_weight(self) -> torch.Tensor:
        """Returns the rounded weight, which is the same until the next update."""
        version = self.weight._version
        if self._rounded is None or self._rounded[0] != version:
            with torch.no_grad():
                self._rounded = version, IntegerMatrix.of(self.weight).decode()
        return self._rounded[1]


class FakeInt8Embedding(torch.nn.Module):
    """An embedding whose rows are rounded: int64 [...] -> float32 [..., columns]. Its parameter is still named "weight"."""

    def __init__(self, embedding: torch.nn.Embedding) -> None:
        super().__init__()
        self._parameters["weight"] = cast("torch.nn.Parameter", embedding.weight)

    @property
    def exact(self) -> torch.nn.Parameter:
        """The parameter itself."""
        return cast("torch.nn.Parameter", self._parameters["weight"])

    @property
    def weight(self) -> torch.Tensor:
        """The rounded matrix, for layers that read all positions at once."""
        return _rounded(self.exact)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return _rounded(torch.nn.functional.embedding(ids, self.exact))


def _rounded(rows: torch.Tensor) -> torch.Tensor:
    """Returns rows, [..., columns], as integers with a scale for each give them."""
    with torch.no_grad():
        rounded = IntegerMatrix.of(rows.flatten(0, -2)).decode().view_as(rows)
    found: torch.Tensor = _StraightThrough.apply(rows, rounded)
    return found


def round_as_integers(module: torch.nn.Module, keep: frozenset[str]) -> None:
    """Replaces every linear layer and embedding below `module`, in place, by one that rounds; parameters stay the same.

    Modules of a class named in `keep` stay exact, as they read the weights of their layers themselves.
    """
    for name, child in module.named_children():
        if isinstance(child, torch.nn.Linear):
            setattr(module, name, FakeInt8Linear(child))
        elif isinstance(child, torch.nn.Embedding):
            setattr(module, name, FakeInt8Embedding(child))
        elif type(child).__name__ not in keep:
            round_as_integers(child, keep)
