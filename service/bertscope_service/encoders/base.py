"""The seam between the engine and whatever runs a model.

An `Encoder` reads padded batches of rows and runs its layers *in steps*: `begin` embeds, `advance` runs layers [a, b) from kept
hidden states, `logits` applies the masked-LM head to chosen positions only. In steps, because stopping early, pausing between
layers for a slow reader, and reusing the layers below a changed head are then the same thing.

    state = encoder.begin(sequences)
    encoder.advance(state, stop=4, gates=gates, watch={3: see})    # see(maps) gets layer 3's attention
    encoder.advance(state, stop=encoder.shape.layers, gates=gates)
    scores = encoder.logits(state, rows, positions)

Two more things make sweeps cheap: `attend` computes a layer's context once, for all rows that differ only in that layer's
gates, and `advance(..., only=positions)` leaves out the rest of the last layer at positions that nobody reads.

Tensors are torch tensors on the encoder's device whatever the runtime is: that is what reductions are written in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray

See = Callable[[torch.Tensor], None]
"""Receives one layer's attention maps, [rows, heads, length, length]; only valid during the call."""

Tap = Callable[[torch.Tensor], None]
"""Receives one layer's contexts A V before any gate, [rows, heads, length, head_size]; likewise."""


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
    has_masked_lm_head: bool
    labels: tuple[str, ...] = ()
    """Names of the labels of a classification head that chooses one of them; empty without such a head."""
    pruned: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """Heads that the weights lack, by layer, ascending; `heads` counts them."""
    prunable: bool = False
    """Whether heads can be removed from the weights."""
    differentiable: bool = False
    """Whether the runtime has gradients."""
    observable: bool = True
    """Whether attention maps can be watched and heads gated; without, `advance` takes neither gates nor watchers."""
    hidden_states: bool = True
    """Whether `State.hidden` holds hidden states after the last layer, and not what a whole model gave."""
    drops_tokens: bool = False
    """Whether some tokens of a text are dropped on the way, so that not all have a vector after the last layer."""
    segments: int = 2
    """How many segments (token types) it tells apart, 1 if none."""


@dataclass(frozen=True, slots=True)
class TokenSequence:
    """One token sequence: ids and segment (token type) ids, equally long, special tokens included."""

    ids: Sequence[int]
    segments: Sequence[int]

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True, eq=False)
class Gates:
    """What the heads of one row contribute: context := keep * (A V) + uniform * mean(V) + constant, before the output
    projection.

    The first two are float32 [layers, heads]; the mean is over the row's real tokens. (1, 0) leaves a head untouched, (0, 0) is
    zero ablation, (0, 1) replaces its attention by a = 1/L (Kovaleva et al. 2019, section 4.6), any other `keep` scales.
    `constant` holds float32 [heads, head_size] for the layers that have one: mean ablation.
    """

    keep: NDArray[np.float32]
    uniform: NDArray[np.float32]
    constant: Mapping[int, NDArray[np.float32]] = field(default_factory=dict)


@dataclass(slots=True)
class BatchGates:
    """The gates of a batch on its device: `keep` and `uniform` are [rows, layers, heads] in the model's number format.

    `layers` names the layers in which any row has a gate that is not (1, 0), `uniform_layers` those with a uniform one; all
    other layers run as if there were no gates. `constant` is [rows, heads, head_size] for the layers that have one.
    """

    keep: torch.Tensor
    uniform: torch.Tensor
    layers: frozenset[int]
    uniform_layers: frozenset[int]
    constant: Mapping[int, torch.Tensor] = field(default_factory=dict)


@dataclass(slots=True)
class Context:
    """What the heads of one layer read, before any gate: `own` = A V, [rows, length, heads, head_size], and `mean`, the mean
    of V over the real tokens, [rows, heads, head_size]."""

    own: torch.Tensor
    mean: torch.Tensor


BEYOND = 1 << 30
"""A place after all others."""


@dataclass(frozen=True, slots=True, eq=False)
class Survivors:
    """Which tokens of a batch are left, in models that drop some on the way.

    places: where each stood in its text, int64 [rows, length], ascending, BEYOND at padding. protected: those that are never
    dropped, bool [rows, length]; False at padding. tokens: real tokens of each text before any was dropped, on the host.
    """

    places: torch.Tensor
    protected: torch.Tensor
    tokens: tuple[int, ...]

    def row(self, index: int, length: int) -> Survivors:
        """A copy of one row without its padding."""
        one = slice(index, index + 1)
        return Survivors(self.places[one, :length].clone(), self.protected[one, :length].clone(), self.tokens[one])

    @staticmethod
    def stack(rows: Sequence[Survivors]) -> Survivors:
        """One batch of single rows."""
        places = torch.nn.utils.rnn.pad_sequence([row.places[0] for row in rows], batch_first=True, padding_value=BEYOND)
        return Survivors(places, _padded([row.protected[0] for row in rows]), tuple(row.tokens[0] for row in rows))


@dataclass(slots=True)
class State:
    """A batch between two layers. `advance` changes it in place, but never the tensors, so states may share them.

    hidden: [rows, length, hidden_size] after `layer` layers (after the embeddings if 0), in the model's number format.
    lengths: real tokens of each row, on the host.
    valid: the same as a mask, bool [rows, length] on the device; None if no row is padded.
    context: of layer `layer`, if `attend` computed it.
    survivors: in models that drop tokens, those that are left: length and `lengths` count these alone. None in all others, and
    once a state was read at chosen positions.
    advanced: when `advance` last came back, time.perf_counter(); on a GPU its layers may still run then.
    """

    hidden: torch.Tensor
    lengths: tuple[int, ...]
    valid: torch.Tensor | None
    layer: int = 0
    context: Context | None = None
    survivors: Survivors | None = None
    advanced: float = 0.0

    def row(self, index: int) -> State:
        """A copy of one row without its padding; it holds no memory of the batch."""
        length, one, context = self.lengths[index], slice(index, index + 1), self.context
        kept = None if context is None else Context(context.own[one, :length].clone(), context.mean[one].clone())
        left = None if self.survivors is None else self.survivors.row(index, length)
        return State(self.hidden[one, :length].clone(), (length,), None, self.layer, kept, left)

    @property
    def bytes(self) -> int:
        """Memory that its tensors take."""
        tensors = [self.hidden] + ([] if self.context is None else [self.context.own, self.context.mean])
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)

    @staticmethod
    def stack(states: Sequence[State]) -> State:
        """One batch of single rows that stand at the same layer, all of them with a context or none."""
        first = states[0]
        if len(states) == 1:
            return State(first.hidden, first.lengths, None, first.layer, first.context, first.survivors)
        lengths = tuple(state.lengths[0] for state in states)
        hidden = _padded([state.hidden[0] for state in states])
        contexts = [state.context for state in states if state.context is not None]
        context = None
        if contexts:
            context = Context(_padded([one.own[0] for one in contexts]), torch.cat([one.mean for one in contexts]))
        left = [state.survivors for state in states if state.survivors is not None]
        survivors = Survivors.stack(left) if left else None
        return State(hidden, lengths, valid_mask(lengths, hidden.device), first.layer, context, survivors)


def _padded(tensors: list[torch.Tensor]) -> torch.Tensor:
    """Tensors [length, ...] as one [rows, longest, ...]."""
    return torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True)


def valid_mask(lengths: Sequence[int], device: torch.device) -> torch.Tensor | None:
    """Which positions of a batch are real: bool [rows, longest], or None if all are."""
    longest = max(lengths)
    if min(lengths) == longest:
        return None
    mask = np.arange(longest) < np.asarray(lengths)[:, None]
    return to_device(torch.from_numpy(mask), device)


def place_ids(sequences: Sequence[TokenSequence], device: torch.device, padding: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Token and segment ids of rows on a device, int64 [rows, longest]; what is shorter is filled with `padding` and with 0."""
    ids = np.full((len(sequences), max(map(len, sequences))), padding, dtype=np.int64)
    segments = np.zeros_like(ids)
    for row, sequence in enumerate(sequences):
        ids[row, : len(sequence)] = sequence.ids
        segments[row, : len(sequence)] = sequence.segments
    return to_device(torch.from_numpy(ids), device), to_device(torch.from_numpy(segments), device)


def to_device(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Copy a host tensor without making the host wait for the device."""
    if device.type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor


class Encoder(Protocol):
    """A loaded model that runs in steps. Not thread-safe: its device's worker is the only caller."""

    @property
    def shape(self) -> Shape: ...

    @property
    def device(self) -> torch.device: ...

    @property
    def dtype(self) -> torch.dtype:
        """The number format of hidden states."""

    @property
    def runtime(self) -> str:
        """ "torch", the library that runs it."""

    @property
    def precision(self) -> str:
        """ "fp32", "bf16", "fp16", "int8" or "weight_only"; hidden states are fp32 with the last two."""

    @property
    def resident_bytes(self) -> int:
        """Memory that its weights take, bytes."""

    def begin(self, sequences: Sequence[TokenSequence]) -> State:
        """Embed rows, padded to the longest. Every row has 1 to `shape.max_tokens` tokens."""

    def place_gates(self, gates: Sequence[Gates | None]) -> BatchGates | None:
        """Put the gates of a batch on the device; None if no row has any."""

    def advance(
        self,
        state: State,
        stop: int,
        gates: BatchGates | None = None,
        watch: Mapping[int, See] | None = None,
        *,
        taps: Mapping[int, Tap] | None = None,
        only: torch.Tensor | None = None,
    ) -> None:
        """Run layers [state.layer, stop). `watch[layer]` sees that layer's attention maps; only watched layers build them.

        `taps[layer]` gets that layer's contexts; its layer may not be one that `attend` has prepared. `only`, int64 [rows, n],
        names the positions of each row that matter after layer `stop` - 1: `hidden` is [rows, n, hidden_size] then, and the
        state can't be advanced further. Layers that can't be run in part run whole, so this never changes what is there. A
        model that drops tokens keeps these from here on; they must be named before one of them is dropped.
        """

    def attend(self, state: State) -> None:
        """Compute the context of layer `state.layer` and keep it in the state: whatever the gates of that layer, `advance`
        goes on from there. Does nothing where a layer can't be run in parts."""

    def logits(self, state: State, rows: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Scores over the vocabulary before the softmax, float32 [n, vocabulary], of n (row, position) pairs (int64 [n] each).

        The state must stand after the last layer; with `only`, positions count among those, else in the texts: a token that was
        dropped has NaN for scores.
        """

    def classify(self, state: State) -> torch.Tensor:
        """Scores of the labels before the softmax, float32 [rows, labels]. The state must stand after the last layer."""

    @property
    def reads_first(self) -> bool:
        """Whether `classify` reads position 0 alone, so that `advance` may leave out all others."""


@runtime_checkable
class Countable(Protocol):
    """An encoder that has its weights at hand."""

    def nonzero_parameters(self) -> int:
        """How many of its parameters are not zero. Reads all of them, on the thread of the device's worker."""
