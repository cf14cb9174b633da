"""The seam between the engine and whatever runs a model.

An `Encoder` reads padded batches of rows and runs its layers *in steps*: `begin` embeds, `advance` runs layers [a, b) from kept
hidden states, `logits` applies the masked-LM head to chosen positions only. In steps, because stopping early, pausing between
layers for a slow reader, and reusing the layers below a changed head are then the same thing.

    state = encoder.begin(sequences)
    encoder.advance(state, stop=4, gates=gates, watch={3: see})    # see(maps) gets layer 3's attention
    encoder.advance(state, stop=encoder.shape.layers, gates=gates)
    scores = encoder.logits(state, rows, positions)

Tensors are torch tensors on the encoder's device whatever the runtime is: that is what reductions are written in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

See = Callable[[torch.Tensor], None]
"""Receives one layer's attention maps, [rows, heads, length, length]; only valid during the call."""


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


@dataclass(frozen=True, slots=True)
class TokenSequence:
    """One token sequence: ids and segment (token type) ids, equally long, special tokens included."""

    ids: Sequence[int]
    segments: Sequence[int]

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True, eq=False)
class Gates:
    """What the heads of one row contribute: context := keep * (A V) + uniform * mean(V), before the output projection.

    Both are float32 [layers, heads]; the mean is over the row's real tokens. (1, 0) leaves a head untouched, (0, 0) is zero
    ablation, (0, 1) replaces its attention by a = 1/L (Kovaleva et al. 2019, section 4.6), any other `keep` scales.
    """

    keep: NDArray[np.float32]
    uniform: NDArray[np.float32]


@dataclass(slots=True)
class BatchGates:
    """The gates of a batch on its device: `keep` and `uniform` are [rows, layers, heads] in the model's number format.

    `layers` names the layers in which any row has a gate that is not (1, 0), `uniform_layers` those with a uniform one; all
    other layers run as if there were no gates.
    """

    keep: torch.Tensor
    uniform: torch.Tensor
    layers: frozenset[int]
    uniform_layers: frozenset[int]


@dataclass(slots=True)
class State:
    """A batch between two layers. `advance` changes it in place.

    hidden: [rows, length, hidden_size] after `layer` layers (after the embeddings if 0), in the model's number format.
    lengths: real tokens of each row, on the host.
    valid: the same as a mask, bool [rows, length] on the device; None if no row is padded.
    """

    hidden: torch.Tensor
    lengths: tuple[int, ...]
    valid: torch.Tensor | None
    layer: int = 0

    def row(self, index: int) -> State:
        """A copy of one row without its padding; it holds no memory of the batch."""
        length = self.lengths[index]
        return State(self.hidden[index : index + 1, :length].clone(), (length,), None, self.layer)

    @staticmethod
    def stack(states: Sequence[State]) -> State:
        """One batch of single rows that stand at the same layer."""
        if len(states) == 1:
            return State(states[0].hidden, states[0].lengths, None, states[0].layer)
        lengths = tuple(state.lengths[0] for state in states)
        hidden = torch.nn.utils.rnn.pad_sequence([state.hidden[0] for state in states], batch_first=True)
        return State(hidden, lengths, valid_mask(lengths, hidden.device), states[0].layer)


def valid_mask(lengths: Sequence[int], device: torch.device) -> torch.Tensor | None:
    """Which positions of a batch are real: bool [rows, longest], or None if all are."""
    longest = max(lengths)
    if min(lengths) == longest:
        return None
    mask = np.arange(longest) < np.asarray(lengths)[:, None]
    return to_device(torch.from_numpy(mask), device)


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
    def runtime(self) -> str:
        """ "torch", the library that runs it."""

    @property
    def precision(self) -> str:
        """ "fp32", "bf16" or "fp16"."""

    def begin(self, sequences: Sequence[TokenSequence]) -> State:
        """Embed rows, padded to the longest. Every row has 1 to `shape.max_tokens` tokens."""

    def place_gates(self, gates: Sequence[Gates | None]) -> BatchGates | None:
        """Put the gates of a batch on the device; None if no row has any."""

    def advance(self, state: State, stop: int, gates: BatchGates | None = None, watch: Mapping[int, See] | None = None) -> None:
        """Run layers [state.layer, stop). `watch[layer]` sees that layer's attention maps; only watched layers build them."""

    def logits(self, state: State, rows: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Scores over the vocabulary before the softmax, float32 [n, vocabulary], of n (row, position) pairs (int64 [n] each).

        The state must stand after the last layer.
        """
