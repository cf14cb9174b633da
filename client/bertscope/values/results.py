"""Defines the shared parts of results: provenance, tokens, steps applied to a model, lists with a table.

Layers and heads count from 0 everywhere (papers count from 1). Positions in a text are code points, as Python counts them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self, SupportsIndex, TypeVar, cast, overload

from bertscope.values.display import HasTable, record, short_list, table_html

__all__ = ["AppliedStep", "Provenance", "TextsProgress", "Token"]

T = TypeVar("T")


@record
class Provenance:
    """The provenance of an answer."""

    model: str
    """Resource name of the model that ran, "models/{id}"."""
    weights_digest: str
    """"sha256:" and 64 hexadecimal digits."""
    runtime: str
    """The library that ran the model: "torch" or "onnx"."""
    device: str
    """The device that ran the model: "cpu", "cuda:0", "mps"."""
    precision: str
    """The number format it computed in: "fp32", "bf16", "fp16", "int8" or "weight_only"."""
    library_versions: Mapping[str, str]
    """Version of each library that affects the numbers, by package name."""
    numbering: str
    """Numbering of layers and heads: "zero_based"."""


@record
class Token:
    """One position of a sequence that a model read: a piece of its vocabulary or, at word level, a whole word."""

    text: str
    """A piece as the tokenizer writes it ("##ing"), or the text of a word."""
    id: int | None
    """Vocabulary index; None for a word of several pieces."""
    start: int
    """First code point in the text; 0 for special tokens."""
    end: int
    """One past the last code point; equal to start for special tokens."""
    special: bool
    """True for tokens that the tokenizer added ([CLS], [SEP])."""
    word: int | None
    """Number of the word in its text, from 0; None for special tokens."""
    segment: int
    """0 for the text, 1 for the second text of a pair."""
    pieces: tuple[str, ...]
    """The vocabulary entries of a word; empty at piece level."""


@record
class AppliedStep:
    """The effect of one step on a model, as its manifest records it."""

    step: str
    """"onnx", "int8", "weight_only", "half", "layers", "heads", "feed_forward", "magnitude", "tokens", "vocabulary" or
    "untrained"."""
    description: str
    """The effect in words: "kept layers 0, 2, 4 of 6"."""
    numbers: Mapping[str, float]
    """The effect in numbers, by name; shares are 0 to 1, sizes bytes."""


@dataclass(frozen=True)
class TextsProgress:
    """The progress of a method that takes any number of texts."""

    done: int
    """The texts answered."""
    total: int | None
    """All texts; None until an iterator of them ends."""


class Results(tuple[T, ...]):
    """A tuple whose slices keep its class, and so its `to_pandas`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return short_list(self)

    def _repr_html_(self) -> str | None:
        return table_html(cast("HasTable", self))  # All lists of results have one.

    @overload
    def __getitem__(self, index: SupportsIndex) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> Self: ...

    def __getitem__(self, index: SupportsIndex | slice) -> T | Self:
        if isinstance(index, slice):
            return type(self)(super().__getitem__(index))
        return super().__getitem__(index)
