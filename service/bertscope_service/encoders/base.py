"""Defines the interface between the engine and the runtimes of models.

An `Encoder` reads padded batches of rows and runs its layers *in steps*: `begin` embeds, `advance` runs layers [a, b) from kept
hidden states, `logits` applies the masked-LM head to chosen positions only. With steps, stopping early, pausing between layers
for a slow reader, and reusing the layers below a changed head are the same operation.

    state = encoder.begin(sequences)
    encoder.advance(state, stop=4, gates=gates, watch={3: see})    # see(maps) gets layer 3's attention
    encoder.advance(state, stop=encoder.shape.layers, gates=gates)
    scores = encoder.logits(state, rows, positions)

Two more things make sweeps cheap: `attend` computes a layer's context once, for all rows that differ only in that layer's
gates, and `advance(..., only=positions)` skips the rest of the last layer at positions that nobody reads.

Tensors are torch tensors on the encoder's device whatever the runtime is: reductions are written in PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, runtime_checkable

import torch

from bertscope_service.encoders.edits import BatchEdits, Edits
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.encoders.sites import Site
from bertscope_service.encoders.state import State

FLOAT32 = ("fp32", "tf32")
"""Precisions whose numbers are float32; in tf32 an NVIDIA GPU rounds the factors of products to 10 bits behind the point."""

MapWatcher = Callable[[torch.Tensor], None]
"""Receives one layer's attention maps, [rows, heads, length, length]; only valid during the call."""

ContextWatcher = Callable[[torch.Tensor], None]
"""Receives one layer's contexts A V before any gate, [rows, heads, length, head_size]; only valid during the call."""

HeadSet: TypeAlias = tuple[tuple[int, tuple[int, ...]], ...]
"""Heads that are changed together: (layer, its heads), layers ascending, heads ascending, none twice."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The dimensions of a model."""

    architecture: str
    layers: int
    heads: int
    hidden_size: int
    vocabulary_size: int
    max_tokens: int
    parameters: int
    labels: tuple[str, ...] = ()
    """Names of the labels of a single-label classification head; empty without such a head."""
    pruned: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """Heads that the weights lack, by layer, ascending; `heads` counts them."""
    segments: int = 2
    """The number of segments (token types), 1 if none."""
    head_labels: tuple[str, ...] = ()
    """Names of the labels of a token classification head or a multi-label head; empty without one."""

    @property
    def sequence_scores(self) -> int:
        """The number of scores that a sequence head gives a text: one for each label, or one value."""
        return len(self.label_names) or 1

    @property
    def label_names(self) -> tuple[str, ...]:
        """Names of the labels of the head, whichever it is; empty for one without labels."""
        return self.labels or self.head_labels

    def heads_of(self, layer: int) -> tuple[int, ...]:
        """Returns the heads that a layer's weights have."""
        gone = self.pruned.get(layer, ())
        return tuple(head for head in range(self.heads) if head not in gone)


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The capabilities of a model with its runtime."""

    masked_lm: bool = False
    """True if there is a masked-LM head."""
    classification: bool = False
    """True if there is a classification head, which chooses one of `Shape.labels`."""
    next_sentence: bool = False
    """True if there is a next-sentence head; the encoder is `Relating` then."""
    token_classification: bool = False
    """True if a head gives every token one of `Shape.head_labels`; the encoder is `ReadsPositions` then."""
    question_answering: bool = False
    """True if a head finds the span that answers a question; the encoder is `ReadsPositions` then."""
    multi_label: bool = False
    """True if there is a classification head of which any number of `Shape.head_labels` may hold for a text."""
    regression: bool = False
    """True if there is a head that gives a text or a pair one value."""
    prunable: bool = False
    """True if heads can be removed from the weights."""
    differentiable: bool = False
    """True if the runtime has gradients."""
    observable: bool = True
    """True if attention maps can be watched and heads gated; otherwise `advance` takes neither gates nor watchers."""
    hidden_states: bool = True
    """True if `State.hidden` holds hidden states after each layer, and not the output of a whole model."""
    last_states: bool = False
    """True if `State.hidden` holds hidden states after the last layer, and none before; `hidden_states` is False then."""
    runs_alone: bool = False
    """True if each row runs by itself, because a row's answer would depend on those beside it."""
    drops_tokens: bool = False
    """True if some tokens of a text are dropped between layers, so that not all have a vector after the last layer."""
    unpadded: bool = False
    """True if layers that nobody watches run on the real tokens of a batch alone."""

    @property
    def sequence_head(self) -> bool:
        """True if `Encoder.classify` gives a text scores of labels or a value."""
        return self.classification or self.multi_label or self.regression


class Encoder(Protocol):
    """A loaded model that runs in steps. Not thread-safe: its device's worker is the only caller."""

    @property
    def shape(self) -> Shape: ...

    @property
    def capabilities(self) -> Capabilities: ...

    @property
    def device(self) -> torch.device: ...

    @property
    def dtype(self) -> torch.dtype:
        """The number format of hidden states."""

    @property
    def runtime(self) -> str:
        """ "torch" or "onnx", the library that runs it."""

    @property
    def precision(self) -> str:
        """ "fp32", "tf32", "bf16", "fp16", "int8" or "weight_only"; hidden states are float32 with "tf32" and the last two."""

    @property
    def resident_bytes(self) -> int:
        """The memory of its weights, bytes."""

    def begin(self, sequences: Sequence[TokenSequence]) -> State:
        """Embeds rows, padded to the longest. Every row has 1 to `shape.max_tokens` tokens."""

    def place_edits(self, edits: Sequence[Edits | None]) -> BatchEdits | None:
        """Places the edits of a batch on the device. Returns None if no row has any."""

    def advance(
        self,
        state: State,
        stop: int,
        edits: BatchEdits | None = None,
        watch: Mapping[int, MapWatcher] | None = None,
        *,
        taps: Mapping[int, ContextWatcher] | None = None,
        only: torch.Tensor | None = None,
    ) -> None:
        """Runs layers [state.layer, stop). `watch[layer]` gets that layer's attention maps; only watched layers build them.

        `taps[layer]` gets that layer's contexts; its layer may not be one that `attend` has prepared. `only`, int64 [rows, n],
        names the positions of each row that matter after layer `stop` - 1: `hidden` is [rows, n, hidden_size] then, and the
        state can't be advanced further. Layers that can't be run in part run whole, so the values at these positions never
        change. A model that drops tokens keeps these from here on; they must be named before one of them is dropped.
        """

    def attend(self, state: State) -> None:
        """Computes the context of layer `state.layer` and keeps it in the state: `advance` continues from it, whatever the
        gates of that layer. Does nothing if a layer can't be run in parts."""

    def logits(self, state: State, rows: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Returns scores over the vocabulary before the softmax, float32 [n, vocabulary], of n (row, position) pairs of real
        tokens (int64 [n] each).

        The state must be after the last layer; with `only`, positions count among those, else in the texts: a dropped token has
        NaN scores.
        """

    def classify(self, state: State) -> torch.Tensor:
        """Returns scores of the labels before the softmax, float32 [rows, labels]; of a multi-label head before the sigmoid, of
        a regression head the value, [rows, 1]. The state must be after the last layer."""

    @property
    def reads_first(self) -> bool:
        """True if `classify` reads position 0 alone, so that `advance` may skip all others."""


@runtime_checkable
class ScoresEntries(Protocol):
    """An encoder that scores some entries of the vocabulary without all others."""

    def entry_logits(self, state: State, rows: torch.Tensor, positions: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        """Returns `Encoder.logits` of the entries `ids`, int64 [n, C], alone: [n, C]."""


class FindsLikeliest(Protocol):
    """An encoder that may have the whole way from tokens to the likeliest entries at a mask prepared on its device."""

    def likeliest(self, state: State, positions: Sequence[Sequence[int]], top_k: int) -> torch.Tensor | None:
        """Returns the ids of the likeliest entries at all P positions of rows, the likeliest first, and the bits of the natural
        logarithms of their probabilities (float32): int32 [P, 2, n], n from `top_k` on. What is launched before the next batch
        may read them. None if nothing prepared fits the batch; the state stays as it is."""


@runtime_checkable
class Relating(Protocol):
    """An encoder whose model may have a next-sentence head (see `Capabilities`)."""

    def relate(self, state: State) -> torch.Tensor:
        """Returns the scores of "is next" and "is not next" before the softmax, float32 [rows, 2]: whether the second text of a
        pair follows the first. Reads position 0 alone. The state must be after the last layer."""


@runtime_checkable
class ReadsPositions(Protocol):
    """An encoder whose model may have a head that reads every position (see `Capabilities`). The state must be after the last
    layer, without `only`."""

    def label_tokens(self, state: State) -> torch.Tensor:
        """Returns scores of the labels of every token before the softmax, float32 [rows, length, labels]."""

    def answer(self, state: State) -> torch.Tensor:
        """Returns scores of every token as the first and as the last one of the answer, before the softmax over a row's tokens,
        float32 [rows, length, 2]."""


@runtime_checkable
class ShowsHeads(Protocol):
    """An encoder whose layers have heads, which `advance` shows to `taps`."""

    @property
    def head_size(self) -> int:
        """The length of a head's context."""


@runtime_checkable
class ShowsActivations(Protocol):
    """An encoder that shows the activations of its feed-forward blocks."""

    @property
    def activation_size(self) -> int:
        """The number of activations of a block."""


@runtime_checkable
class ChangesSites(ShowsHeads, Protocol):
    """An encoder that changes vectors at the sites of its layers."""

    def site_refusal(self, site: Site, layer: int) -> str | None:
        """Returns why a site of a layer can't be changed, with the remedy; None if it can."""

    def site_size(self, site: Site) -> int | None:
        """Returns the length of the vectors at a site but those of heads; None if it is not known."""


@runtime_checkable
class Captures(Protocol):
    """An encoder that can prepare its device for what most calls ask."""

    def capture(self) -> None:
        """Captures CUDA graphs on a GPU that has the kernels for them, on the thread of the device's worker, once. Never raises
        because of the device."""


@runtime_checkable
class Countable(Protocol):
    """An encoder whose weights can be counted."""

    def nonzero_parameters(self) -> int:
        """Returns the number of its parameters that are not zero. Reads all of them, on the thread of the device's worker."""
