"""What calls give back: frozen dataclasses, with numpy arrays where there are many numbers.

Layers and heads count from 0 everywhere (papers count from 1). Positions in a text are code points, as Python
counts them.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, SupportsIndex, TypeVar, overload

import numpy as np
import numpy.typing as npt

from bertscope import _tables
from bertscope.compression import AppliedStep

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")


@dataclass(frozen=True)
class Provenance:
    """Where an answer comes from."""

    model: str
    """Resource name of the model that ran, "models/{id}"."""
    weights_digest: str
    """"sha256:" and 64 hexadecimal digits."""
    runtime: str
    """The library that ran the model: "torch" or "onnx"."""
    device: str
    """Where it ran: "cpu", "cuda:0"."""
    precision: str
    """The number format it computed in: "fp32", "bf16", "fp16", "int8" or "weight_only"."""
    library_versions: Mapping[str, str]
    """Version of each library that shaped the numbers, by package name."""
    numbering: str
    """How layers and heads are numbered: "zero_based"."""


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class Prediction:
    """One way to fill a mask."""

    token: str
    """The word as one would write it; a candidate is given back as it was asked."""
    pieces: tuple[str, ...]
    """Its vocabulary entries."""
    piece_ids: tuple[int, ...]
    """Their vocabulary indices."""
    probability: float
    """Among the whole vocabulary, 0 to 1; with several pieces, the product over as many masks."""
    log_probability: float
    """Natural logarithm of the probability."""
    candidate_probability: float | None
    """Share of this candidate among all candidates, 0 to 1; None for top-k predictions."""
    rank: int | None
    """Rank among the whole vocabulary, 1 is the likeliest; None for a candidate of several pieces."""


@dataclass(frozen=True)
class FilledMask:
    """One mask and what fills it."""

    predictions: tuple[Prediction, ...]
    """Likeliest first."""
    start: int
    """First code point of the mask in the text."""
    end: int
    """One past its last code point."""
    token_index: int
    """Position among the tokens that the model read, from 0."""


@dataclass(frozen=True)
class FilledText:
    """The masks of one text."""

    text: str
    """The text, as asked."""
    masks: tuple[FilledMask, ...]
    """In the order they stand in the text."""
    tokens: int
    """How many tokens the model read, special tokens included."""
    truncated_tokens: int
    """How many tokens of the text were cut away."""
    provenance: Provenance
    """Where the predictions come from."""

    def to_pandas(self) -> pd.DataFrame:
        """A row for each prediction; columns as `FilledTexts.to_pandas`."""
        return _tables.filled_texts([self])


class Results(tuple[T, ...]):
    """A tuple whose slices keep its class, and so its `to_pandas`."""

    __slots__ = ()

    @overload
    def __getitem__(self, index: SupportsIndex) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> Self: ...

    def __getitem__(self, index: SupportsIndex | slice) -> T | Self:
        if isinstance(index, slice):
            return type(self)(super().__getitem__(index))
        return super().__getitem__(index)


class FilledTexts(Results[FilledText]):
    """The answers of one `fill_mask` call, one for each text, in order."""

    __slots__ = ()

    def to_pandas(self) -> pd.DataFrame:
        """A row for each prediction: text, mask (index in the text), start, end, order (from 1), token, probability,
        log_probability, candidate_probability, rank. Needs the extra "pandas"."""
        return _tables.filled_texts(self)


@dataclass(frozen=True, eq=False)
class AttentionMaps:
    """The attention maps of one text. Compared by identity, as numpy arrays have no single truth value."""

    input_index: int
    """Index of the text among the call's inputs."""
    text: str
    """The text, or the first of a pair."""
    text_pair: str | None
    """The second text of a pair."""
    tokens: tuple[Token, ...]
    """What rows and columns stand for, L of them."""
    attention: npt.NDArray[np.floating[Any]]
    """[layers, heads, L, L], float32 or float16; row i is the attention of token i to every token and sums to 1."""
    layers: tuple[int, ...]
    """Layer of each slice along the first dimension."""
    heads: tuple[int, ...]
    """Head of each slice along the second dimension."""
    truncated_tokens: int
    """How many tokens of the text were cut away."""
    provenance: Provenance
    """Where the maps come from."""

    def head(self, layer: int, head: int) -> npt.NDArray[np.floating[Any]]:
        """The map of one head, [L, L], by the numbers of its layer and head (not by their place in the array).

        Raises KeyError if the call did not ask for that layer or head.
        """
        if layer not in self.layers or head not in self.heads:
            raise KeyError(f"layer {layer}, head {head}: the maps hold layers {self.layers} and heads {self.heads}")
        result: npt.NDArray[np.floating[Any]] = self.attention[self.layers.index(layer), self.heads.index(head)]
        return result

    def to_pandas(self) -> pd.DataFrame:
        """A row for each weight (layers x heads x L x L of them): layer, head, from_index, from_token, to_index,
        to_token, attention. Needs the extra "pandas"."""
        return _tables.attention(self)


@dataclass(frozen=True)
class Model:
    """A hosted model."""

    name: str
    """Resource name, "models/{id}"."""
    source: str
    """Where it was loaded from: a hub id, a folder or an ONNX file."""
    architecture: str
    """"bert", "roberta", "electra" and so on."""
    runtime: str
    """The library that runs it: "torch" or "onnx". Only name, source and state are set before a model is ready."""
    device: str
    """Where it runs: "cpu", "cuda:0"."""
    precision: str
    """The number format it computes in: "fp32", "bf16", "fp16", "int8" or "weight_only"."""
    layers: int
    """Number of encoder layers."""
    heads: int
    """Number of attention heads in each layer."""
    hidden_size: int
    """Length of a hidden state."""
    vocabulary_size: int
    """Number of pieces in the vocabulary."""
    max_tokens: int
    """Longest sequence it reads, in tokens, special tokens included."""
    parameters: int
    """Number of trainable parameters, shared ones counted once."""
    weight_bytes: int
    """Size of the weight files, bytes."""
    capabilities: tuple[str, ...]
    """What it can do: "attention", "cloze", "classification", "interventions", "ranking", "pruning"."""
    state: str
    """Where it is in its life: "loading", "ready" or "unloading"."""
    weights_digest: str
    """"sha256:" and 64 hexadecimal digits."""
    mask_token: str
    """Its own mask token; "[MASK]" is understood for every model. Empty if it has none."""
    ready_time: datetime.datetime | None
    """When it became ready, UTC."""
    labels: tuple[str, ...]
    """Names of its labels in order of their indices; empty unless it classifies."""
    pruned_heads: Mapping[int, tuple[int, ...]]
    """Heads that were removed from its weights, by layer, with the numbers they had; `heads` still counts them."""
    compression: tuple[AppliedStep, ...] = ()
    """What `compress_model` did to it, in order; empty for a model that was not compressed here."""


class Models(Results[Model]):
    """The models of a server, the default model first."""

    __slots__ = ()

    def to_pandas(self) -> pd.DataFrame:
        """A row for each model, a column for each field of `Model`. Needs the extra "pandas"."""
        return _tables.models(self)


@dataclass(frozen=True)
class LoadProgress:
    """How far the load of a model is."""

    stage: str
    """"resolving", "downloading", "reading" or "warming_up"."""
    done_bytes: int
    """What of the stage is done; 0 where it is not counted."""
    total_bytes: int
    """What there is to do; 0 where it is not known."""
    detail: str
    """The file or step in words."""


@dataclass(frozen=True)
class Health:
    """What a server says of itself."""

    status: str
    """Of the whole server: "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN" or "UNKNOWN"."""
    services: Mapping[str, str]
    """The same of each bertscope service, by its full name."""

    @property
    def serving(self) -> bool:
        """True if the server serves and none of its services says that it does not."""
        return self.status == "SERVING" and "NOT_SERVING" not in self.services.values()
