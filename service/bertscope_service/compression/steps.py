"""What CompressModel can do to a model, and what it did: plain values, no work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import ClassVar

Heads = Mapping[int, tuple[int, ...]]
"""Heads by layer."""


class Criterion(Enum):
    """How feed-forward units are ranked; see bertscope.v1.FeedForwardRemoval."""

    MAGNITUDE = "magnitude"
    IMPORTANCE = "importance"


@dataclass(frozen=True, slots=True)
class OnnxExport:
    """Write ONNX graphs."""

    name: ClassVar[str] = "onnx"


@dataclass(frozen=True, slots=True)
class Int8:
    """Linear layers and embeddings in 8-bit integers, activations quantised as they come."""

    name: ClassVar[str] = "int8"


@dataclass(frozen=True, slots=True)
class WeightOnly:
    """Weights in `bits` bits: blocks of `block_size` that share a scale (ONNX; 0 means the usual size), or a dictionary with
    outliers (`block_size` 0)."""

    bits: int
    block_size: int
    name: ClassVar[str] = "weight_only"


@dataclass(frozen=True, slots=True)
class Half:
    """Weights and activations in 16 bits, "fp16" or "bf16"."""

    precision: str
    name: ClassVar[str] = "half"


@dataclass(frozen=True, slots=True)
class KeepLayers:
    """Only these layers, ascending."""

    kept: tuple[int, ...]
    name: ClassVar[str] = "layers"


@dataclass(frozen=True, slots=True)
class RemoveHeads:
    """Given heads, or a share of all by their importance on `texts`."""

    heads: Heads = field(default_factory=dict)
    share: float | None = None
    texts: tuple[str, ...] = ()
    name: ClassVar[str] = "heads"


@dataclass(frozen=True, slots=True)
class RemoveFeedForward:
    """A share of every layer's feed-forward units."""

    share: float
    criterion: Criterion = Criterion.MAGNITUDE
    texts: tuple[str, ...] = ()
    name: ClassVar[str] = "feed_forward"


@dataclass(frozen=True, slots=True)
class PruneMagnitude:
    """A share of every linear layer's weights set to zero."""

    share: float
    name: ClassVar[str] = "magnitude"


@dataclass(frozen=True, slots=True)
class EliminateTokens:
    """The share of a text's tokens that goes on after each layer."""

    kept_shares: tuple[float, ...]
    name: ClassVar[str] = "tokens"


@dataclass(frozen=True, slots=True)
class ReduceVocabulary:
    """Only the pieces that occur `min_count` times in `texts`, and special ones and single characters."""

    texts: tuple[str, ...]
    min_count: int = 1
    name: ClassVar[str] = "vocabulary"


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
)


@dataclass(frozen=True, slots=True)
class StepProgress:
    """How far a compression is: steps that are done, all steps (loading the result included), and what is done now."""

    done: int
    total: int
    detail: str


@dataclass(frozen=True, slots=True)
class Applied:
    """What one step did; see bertscope.v1.AppliedStep."""

    step: str
    description: str
    numbers: Mapping[str, float]
