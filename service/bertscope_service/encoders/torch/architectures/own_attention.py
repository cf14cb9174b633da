"""Runs the layers of architectures whose attention transformers computes in its own code, with no seam for gates and maps.

The same sums are computed here from the layers' own projections, in the same order.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

import torch

from bertscope_service.encoders.gating import LayerRun
from bertscope_service.encoders.torch.architectures.architecture import Architecture
from bertscope_service.encoders.torch.architectures.attention import gated_attention

T = TypeVar("T")


class Heads(NamedTuple):
    """The input of a layer's heads: query, key, value are [rows, heads, length, head_size].

    Scores are the products of queries and keys, multiplied by `scaling`, or divided by `divisor` if that is given, plus `bias`,
    broadcastable to [rows, heads, length, length].
    """

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    scaling: float | None = None
    divisor: float | None = None
    bias: torch.Tensor | None = None


@runtime_checkable
class Attending(Protocol):
    """A run of a layer that computes attention itself, as it does for an export."""

    def attend(self, heads: Heads, mask: torch.Tensor | None) -> torch.Tensor:
        """Returns the gated contexts, [rows, length, heads, head_size]."""


class OwnAttention(Architecture):
    """BERT's layout with attention computed here; subclasses say what the heads read."""

    in_parts = False

    def heads_of(self, index: int, hidden: torch.Tensor, places: torch.Tensor | None) -> Heads:
        """Returns what a layer's heads read; `places` as in `run_layer`."""
        query, key, value = (self.by_head(projection(hidden)) for projection in self.projections(index))
        return Heads(query, key, value, divisor=math.sqrt(self.head_size))

    def by_head(self, projected: torch.Tensor) -> torch.Tensor:
        """Returns [rows, length, heads * head_size] as [rows, heads, length, head_size]."""
        return projected.view(*projected.shape[:2], -1, self.head_size).transpose(1, 2)

    def attention_reads(self, index: int, hidden: torch.Tensor) -> torch.Tensor:
        """Returns what attention reads: the states at the layer's start, or their normalisation."""
        return hidden

    def contexts(
        self, index: int, hidden: torch.Tensor, valid: torch.Tensor | None, run: LayerRun, places: torch.Tensor | None
    ) -> torch.Tensor:
        """Returns the gated contexts of a layer's heads, [rows, length, heads, head_size]."""
        if not self.kept.get(index, (0,)):
            return hidden.new_empty((*hidden.shape[:2], 0, self.head_size))
        mask = None if valid is None else valid[:, None, None, :]
        heads = self.heads_of(index, self.attention_reads(index, hidden), places)
        if isinstance(run, Attending):
            return run.attend(heads, mask)
        return gated_attention(
            heads.query, heads.key, heads.value, mask, heads.scaling, run=run, divisor=heads.divisor, bias=heads.bias
        )

    def run_layer(
        self, index: int, hidden: torch.Tensor, valid: torch.Tensor | None, run: LayerRun, places: torch.Tensor | None = None
    ) -> torch.Tensor:
        context = self.contexts(index, hidden, valid, run, places).flatten(2)
        return self.ended(index, self.finish(index, context, hidden))


def distances(hidden: torch.Tensor, places: torch.Tensor | None) -> torch.Tensor:
    """Returns position of the query minus that of the key, int64 [rows or 1, length, length], for hidden [rows, length, size]
    at `places`."""
    if places is None:
        places = torch.arange(hidden.shape[1], dtype=torch.int64, device=hidden.device)[None]
    return places[:, :, None] - places[:, None, :]


class OfLength(Generic[T]):
    """Keeps what all layers of a batch compute alike from its length and the places of its tokens, for those that came last."""

    def __init__(self) -> None:
        self._kept: tuple[tuple[int, torch.device], tuple[object, ...], T] | None = None

    def get(self, hidden: torch.Tensor, make: Callable[[], T], *where: object) -> T:
        """Returns what `make` returns for the length and the device of hidden [rows, length, size] and for these very objects,
        such as the places of its tokens. It is made outside inference mode, since gradients may need it later, and without a
        gradient of its own."""
        key, kept = (hidden.shape[1], hidden.device), self._kept
        if kept is None or kept[0] != key or any(one is not other for one, other in zip(kept[1], where, strict=True)):
            with torch.inference_mode(mode=False), torch.no_grad():
                kept = key, where, make()
            self._kept = kept
        return kept[2]


def parts(**modules: torch.nn.Module) -> Any:
    """Returns modules that lie in several lists as one layer; the model keeps its own structure."""
    return torch.nn.ModuleDict(modules)
