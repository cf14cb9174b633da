"""The steps of CompressModel and their results: plain values, no work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import ClassVar

Heads = Mapping[int, tuple[int, ...]]
"""Heads by layer."""


class Criterion(Enum):
    """The ranking of feed-forward units; see bertscope.v1.FeedForwardRemoval."""

    MAGNITUDE = "magnitude"
    IMPORTANCE = "importance"


@dataclass(frozen=True, slots=True)
class OnnxExport:
    """Writes ONNX graphs."""

    name: ClassVar[str] = "onnx"


@dataclass(frozen=True, slots=True)
class Int8:
    """Stores linear layers and embeddings in 8-bit integers and quantises activations at run time."""

    name: ClassVar[str] = "int8"


@dataclass(frozen=True, slots=True)
class WeightOnly:
    """Stores weights in `bits` bits.

    They are blocks of `block_size` that share a scale (ONNX; 0 means the default size), or a dictionary with outliers
    (`block_size` 0).
    """

    bits: int
    block_size: int
    name: ClassVar[str] = "weight_only"


@dataclass(frozen=True, slots=True)
class Half:
    """Stores weights and activations in 16 bits, "fp16" or "bf16"."""

    precision: str
    name: ClassVar[str] = "half"


@dataclass(frozen=True, slots=True)
class KeepLayers:
    """Keeps only these layers, ascending."""

    kept: tuple[int, ...]
    name: ClassVar[str] = "layers"


@dataclass(frozen=True, slots=True)
class RemoveHeads:
    """Removes given heads, or a share of all by their importance on `texts`."""

    heads: Heads = field(default_factory=dict)
    share: float | None = None
    texts: tuple[str, ...] = ()
    name: ClassVar[str] = "heads"


@dataclass(frozen=True, slots=True)
class RemoveFeedForward:
    """Removes a share of every layer's feed-forward units."""

    share: float
    criterion: Criterion = Criterion.MAGNITUDE
    texts: tuple[str, ...] = ()
    name: ClassVar[str] = "feed_forward"


@dataclass(frozen=True, slots=True)
class PruneMagnitude:
    """Sets a share of every linear layer's weights to zero."""

    share: float
    name: ClassVar[str] = "magnitude"


@dataclass(frozen=True, slots=True)
class EliminateTokens:
    """Drops tokens; `kept_shares` are the shares of a text's tokens that remain after each layer."""

    kept_shares: tuple[float, ...]
    name: ClassVar[str] = "tokens"


@dataclass(frozen=True, slots=True)
class ReduceVocabulary:
    """Keeps the pieces that occur `min_count` times in `texts`, special ones and single characters."""

    texts: tuple[str, ...]
    min_count: int = 1
    name: ClassVar[str] = "vocabulary"


@dataclass(frozen=True, slots=True)
class Untrain:
    """Gives every parameter a random value, as before any training."""

    seed: int = 0
    name: ClassVar[str] = "untrained"


Step = (
    OnnxExport
    | Int8
    | WeightOnly
    | Half
    | KeepLayers
    | RemoveHeads
    | RemoveFeedForward
    | PruneMagnitude
    | EliminateTokens
    | ReduceVocabulary
    | Untrain
)


@dataclass(frozen=True, slots=True)
class StepProgress:
    """The progress of a compression: finished steps, all steps (loading the result included), and the current one."""

    done: int
    total: int
    detail: str


def grown(bytes_before: float, bytes_after: float) -> str:
    """Returns a warning for the description of a step that made the weights larger, else ""."""
    if bytes_after <= bytes_before:
        return ""
    return f"; WARNING: larger than before, {bytes_after / 1e6:.1f} MB from {bytes_before / 1e6:.1f} MB"


@dataclass(frozen=True, slots=True)
class Applied:
    """The result of one step; see bertscope.v1.AppliedStep."""

    step: str
    description: str
    numbers: Mapping[str, float]
