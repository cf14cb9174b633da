"""Describes a ranking: how much the loss depends on each head, as a frozen dataclass.

Layers and heads count from 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, SupportsIndex

import numpy as np
import numpy.typing as npt

from bertscope.errors import InvalidReply, invalid_argument
from bertscope.v1 import ablation_pb2
from bertscope.values import validation
from bertscope.values.display import data_frame, table_html
from bertscope.values.messages import provenance
from bertscope.values.results import Provenance
from bertscope.values.tensors import matrix

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["HeadRanking"]


@dataclass(frozen=True, eq=False, repr=False)
class HeadRanking:
    """Gradient importance of every head (Michel et al. 2019). Compared by identity, as numpy arrays have no truth value."""

    importance: npt.NDArray[np.float32]
    """[layers, heads], at least 0, l2-normalised within each layer."""
    gradient: npt.NDArray[np.float32]
    """[layers, heads], the same before normalisation: mean absolute derivative of the loss."""
    items: int
    """Number of items."""
    skipped_items: int
    """Number of prompts left out."""
    loss: float
    """Mean loss: nats, or for `RatedTexts` the mean squared difference."""
    provenance: Provenance
    """Provenance of the numbers."""

    def __repr__(self) -> str:
        layers, heads = self.importance.shape
        return f"<HeadRanking: {layers} x {heads} heads, {self.items} items, {self.provenance.model}; loss {self.loss:.4g}>"

    def order(self) -> list[tuple[int, int]]:
        """Returns (layer, head) of all heads, the least important first; equal ones by their numbers."""
        heads = self.importance.shape[1]
        return [divmod(int(index), heads) for index in np.argsort(self.importance, axis=None, kind="stable")]

    def least(self, *, share: float | None = None, count: SupportsIndex | None = None) -> dict[int, tuple[int, ...]]:
        """Returns the least important heads by layer, ready for `prune_heads`: a share of all heads (rounded down), or a
        number.

        Heads that were pruned before have no gradient, come first and count: on a model that lacks a tenth of its heads, a
        share of 0.2 is that tenth and one more.

        Raises InvalidArgument unless one of the two is given, `share` 0 to 1, `count` 0 to the number of heads.
        """
        if (share is None) == (count is None):
            raise invalid_argument("share", "give share or count, one of them")
        total = self.importance.size
        number = total if count is None else validation.uint32("count", count)
        if number > total:
            raise invalid_argument("count", f"must be 0 to {total}, the number of heads, not {number}")
        if share is not None:
            number = _count_of_share(share, total)
        chosen: dict[int, list[int]] = {}
        for layer, head in sorted(self.order()[:number]):
            chosen.setdefault(layer, []).append(head)
        return {layer: tuple(heads) for layer, heads in chosen.items()}

    def _repr_html_(self) -> str | None:
        return table_html(self)

    def to_pandas(self) -> pd.DataFrame:
        """Returns a row for each head: layer, head, importance, gradient, order (1 is the least important). Needs the extra
        "pandas"."""
        layer, head = np.indices(self.importance.shape).reshape(2, -1)
        order = np.argsort(np.argsort(self.importance, axis=None, kind="stable")) + 1
        columns = {"importance": self.importance.reshape(-1), "gradient": self.gradient.reshape(-1), "order": order}
        return data_frame({"layer": layer, "head": head, **columns})


def _count_of_share(share: float, total: int) -> int:
    value = validation.finite_number("share", share)
    if not 0 <= value <= 1:
        raise invalid_argument("share", f"must be 0 to 1, not {value:g}")
    # 0.29 * 100 is 28.999999999999996, which means 29.
    return math.floor(value * total + 1e-9)


def read_head_ranking(message: ablation_pb2.RankHeadsResponse) -> HeadRanking:
    """Returns the importance of every head."""
    importance, gradient = matrix(message.importance), matrix(message.gradient)
    if importance.shape != gradient.shape:
        raise InvalidReply(f"the server sent importance of shape {importance.shape} and gradient of shape {gradient.shape}")
    return HeadRanking(
        importance=importance,
        gradient=gradient,
        items=message.items,
        skipped_items=message.skipped_items,
        loss=message.loss,
        provenance=provenance(message.provenance),
    )
