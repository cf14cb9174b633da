"""Defines what follows paths from one part of a model to another, in any runtime."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple, Protocol, runtime_checkable

import torch


class Receiver(Enum):
    """The part that a path ends at; see bertscope.v1.PathReceiver."""

    QUERY = "query"
    KEY = "key"
    VALUE = "value"
    FEED_FORWARD = "feed forward"
    LOGITS = "logits"


class Sender(NamedTuple):
    """The part that a path begins at: a head of a layer, or its feed-forward block if `head` is None."""

    layer: int
    head: int | None


@runtime_checkable
class FollowsPaths(Protocol):
    """Parts of layers that normalise x + attention(x), and the sum of that and a feed-forward block; on the thread of the
    device's worker. Vectors are [n, length, size]."""

    @property
    def paths_refusal(self) -> str | None:
        """Why this encoder can't, with the remedy, to continue "it can't ...:"; None if it can."""

    def normalised(self, layer: int, summed: torch.Tensor, *, after_heads: bool) -> torch.Tensor:
        """Applies the normalisation of a layer after its heads, or after its feed-forward block."""

    def received(self, receiver: Receiver, layer: int, read: torch.Tensor, before: torch.Tensor) -> torch.Tensor:
        """Returns what a layer's heads give, [n, length, heads * head_size], if their queries, keys or values alone `read`
        these states, and the rest `before`, [1, length, hidden_size]; or what a feed-forward block gives that reads them."""

    def projection(self, layer: int) -> torch.Tensor:
        """See `Decomposition`."""
