"""Defines the steps of `compress_model`.

Steps that change the checkpoint (`keep_layers`, `remove_heads`, `remove_feed_forward`, `magnitude`, `eliminate_tokens`,
`reduce_vocabulary`, `untrained`) are done in the order given; then the model is written in another number format (at most one
of `int8`, `weight_only`, `half`), for another runtime (`onnx`), or both. Each kind may come once. Making a step raises
InvalidArgument, naming the field, for arguments of the wrong type; the server checks whether a step suits the model.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, SupportsIndex, TypeVar

from bertscope.errors import invalid_argument
from bertscope.values import validation
from bertscope.values.validation import Heads

__all__ = [
    "eliminate_tokens",
    "half",
    "int8",
    "keep_layers",
    "magnitude",
    "onnx",
    "reduce_vocabulary",
    "remove_feed_forward",
    "remove_heads",
    "untrained",
    "weight_only",
]

Values = TypeVar("Values", list[Any], dict[Any, Any])

HalfFormat = Literal["fp16", "bf16"]
HALF_FORMATS = ("fp16", "bf16")
Criterion = Literal["magnitude", "importance"]
CRITERIA = ("magnitude", "importance")


@dataclass(frozen=True)
class OnnxExport:
    """Made by `onnx`."""


@dataclass(frozen=True)
class Int8Quantization:
    """Made by `int8`."""


@dataclass(frozen=True)
class WeightOnlyQuantization:
    """Made by `weight_only`."""

    bits: int
    block_size: int | None = None


@dataclass(frozen=True)
class HalfPrecision:
    """Made by `half`."""

    precision: HalfFormat


@dataclass(frozen=True)
class LayerSelection:
    """Made by `keep_layers`."""

    layers: tuple[int, ...]


@dataclass(frozen=True)
class HeadRemoval:
    """Made by `remove_heads`."""

    heads: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    share: float | None = None
    texts: tuple[str, ...] = ()


@dataclass(frozen=True)
class FeedForwardRemoval:
    """Made by `remove_feed_forward`."""

    share: float
    by: Criterion = "magnitude"
    texts: tuple[str, ...] = ()


@dataclass(frozen=True)
class MagnitudePruning:
    """Made by `magnitude`."""

    share: float


@dataclass(frozen=True)
class TokenElimination:
    """Made by `eliminate_tokens`."""

    kept_shares: tuple[float, ...]


@dataclass(frozen=True)
class VocabularyReduction:
    """Made by `reduce_vocabulary`."""

    texts: tuple[str, ...]
    min_count: int = 1


@dataclass(frozen=True)
class RandomWeights:
    """Made by `untrained`."""

    seed: int = 0


Step = (
    OnnxExport
    | Int8Quantization
    | WeightOnlyQuantization
    | HalfPrecision
    | LayerSelection
    | HeadRemoval
    | FeedForwardRemoval
    | MagnitudePruning
    | TokenElimination
    | VocabularyReduction
    | RandomWeights
)


def onnx() -> OnnxExport:
    """Writes ONNX graphs, which ONNX Runtime runs."""
    return OnnxExport()


def int8() -> Int8Quantization:
    """Stores linear layers and embeddings in 8-bit integers, and quantises activations at run time (Zafrir et al. 2019, without
    their training): with `onnx` by ONNX Runtime, without by PyTorch."""
    return Int8Quantization()


def weight_only(bits: SupportsIndex = 4, block_size: SupportsIndex | None = None) -> WeightOnlyQuantization:
    """Stores weights in 2 to 8 bits (with `onnx` 4 or 8), multiplied as floating-point numbers.

    With `onnx`, `block_size` neighbouring weights (16, 32, 64 or 128; None means 32) share a scale. Without, every matrix has a
    dictionary of 2**bits values and keeps its outliers whole (Zadeh et al. 2020, GOBO), and there are no blocks.

    >>> weight_only(4, block_size=32)
    WeightOnlyQuantization(bits=4, block_size=32)
    """
    blocks = None if block_size is None else validation.positive("block_size", block_size)
    return WeightOnlyQuantization(validation.positive("bits", bits), blocks)


def half(precision: HalfFormat = "fp16") -> HalfPrecision:
    """Stores weights and computes activations in 16 bits, "fp16" or "bf16"; not with `onnx` on a CPU."""
    validation.choice("precision", precision, dict.fromkeys(HALF_FORMATS))
    return HalfPrecision(precision)


def keep_layers(layers: SupportsIndex | Iterable[SupportsIndex]) -> LayerSelection:
    """Keeps these layers, ascending, and removes the others: the initialisation of PKD's and BERT-of-Theseus' students.

    >>> keep_layers([0, 2, 4])
    LayerSelection(layers=(0, 2, 4))
    """
    kept = [layers] if isinstance(layers, SupportsIndex) else validation.many("layers", layers, "integers")
    numbers = [validation.uint32(f"layers[{index}]", layer) for index, layer in enumerate(kept)]
    return LayerSelection(tuple(_some("layers", numbers)))


def remove_heads(
    heads: Mapping[int, Heads] | None = None, *, share: float | None = None, texts: str | Iterable[str] = ()
) -> HeadRemoval:
    """Removes heads from the weights: given ones, {layer: head, heads or None for all}, or a share of all of them, over 0
    and below 1, those with the least gradient importance for the masked-LM loss on `texts`.

    >>> remove_heads({3: [1, 4]}).heads
    {3: (1, 4)}
    """
    if (heads is None) == (share is None):
        raise invalid_argument("heads", "give heads or share, one of them")
    kept = tuple(validation.texts("texts", texts))
    if heads is not None:
        if kept:
            raise invalid_argument("texts", "go with share: given heads are not ranked")
        return HeadRemoval(_some("heads", validation.heads_by_layer("heads", heads)))
    if not kept:
        raise invalid_argument("texts", "are required with share: heads are ranked on them")
    return HeadRemoval(share=validation.finite_number("share", share), texts=kept)


def remove_feed_forward(share: float, by: Criterion = "magnitude", *, texts: str | Iterable[str] = ()) -> FeedForwardRemoval:
    """Removes a share, over 0 and below 1, of every layer's feed-forward units.

    The units with the least "magnitude" (product of the norms of incoming and outgoing weights) or "importance" (mean of
    |activation * its gradient of the masked-LM loss| over `texts`, which it needs) are removed.
    """
    validation.choice("by", by, dict.fromkeys(CRITERIA))
    kept = tuple(validation.texts("texts", texts))
    if (by == "importance") != bool(kept):
        raise invalid_argument("texts", 'are required for "importance" and must be left out otherwise')
    return FeedForwardRemoval(validation.finite_number("share", share), by, kept)


def magnitude(share: float) -> MagnitudePruning:
    """Sets the smallest weights of every linear layer to zero, a share over 0 and below 1. Dense kernels do not use zeros:
    neither size nor speed changes. It shows what a sparse format could save, and at what loss."""
    return MagnitudePruning(validation.finite_number("share", share))


def untrained(seed: SupportsIndex = 0) -> RandomWeights:
    """Gives the model random weights of the same shape, as before any training: a control for what training has to do with a
    number."""
    return RandomWeights(validation.uint64("seed", seed))


def eliminate_tokens(kept_shares: Iterable[float]) -> TokenElimination:
    """Drops the token vectors that got the least attention, layer by layer (Goyal et al. 2020, PoWER-BERT).

    `kept_shares` is the share of a text's tokens that continues after each layer, over 0 to 1, not increasing.
    """
    values = validation.many("kept_shares", kept_shares, "numbers")
    shares = [validation.finite_number(f"kept_shares[{index}]", value) for index, value in enumerate(values)]
    return TokenElimination(tuple(_some("kept_shares", shares)))


def reduce_vocabulary(texts: str | Iterable[str], min_count: SupportsIndex = 1) -> VocabularyReduction:
    """Keeps the pieces that occur `min_count` times or more in a corpus, special ones and single characters (the first
    trick of Zhao et al. 2019, BERT-48)."""
    corpus = _some("texts", validation.texts("texts", texts))
    return VocabularyReduction(tuple(corpus), validation.positive("min_count", min_count))


def _some(name: str, values: Values) -> Values:
    if not values:
        raise invalid_argument(name, "is empty: say at least one")
    return values
