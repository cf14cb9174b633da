"""Defines the state of a batch between two layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray


@dataclass(slots=True)
class Context:
    """The outputs of one layer's heads, before any gate: `own` = A V, [rows, length, heads, head_size], and `mean`, the mean of
    V over the real tokens, [rows, heads, head_size]."""

    own: torch.Tensor
    mean: torch.Tensor


BEYOND = 1 << 30
"""A position after all others."""


@dataclass(frozen=True, slots=True, eq=False)
class KeptTokens:
    """The remaining tokens of a batch, in models that drop some between layers.

    places: their positions in the text, int64 [rows, length], ascending, BEYOND at padding. protected: tokens that are never
    dropped, bool [rows, length]; False at padding. tokens: real tokens of each text before any was dropped, on the host.
    """

    places: torch.Tensor
    protected: torch.Tensor
    tokens: tuple[int, ...]

    def row(self, index: int, length: int) -> KeptTokens:
        """Returns a copy of one row without its padding."""
        one = slice(index, index + 1)
        return KeptTokens(self.places[one, :length].clone(), self.protected[one, :length].clone(), self.tokens[one])

    @staticmethod
    def stack(rows: Sequence[KeptTokens]) -> KeptTokens:
        """Returns one batch of single rows."""
        places = torch.nn.utils.rnn.pad_sequence([row.places[0] for row in rows], batch_first=True, padding_value=BEYOND)
        return KeptTokens(places, _padded([row.protected[0] for row in rows]), tuple(row.tokens[0] for row in rows))


class State:
    """A batch between two layers. `advance` changes it in place, but never the tensors, so states may share them.

    hidden: [rows, length, hidden_size] after `layer` layers (after the embeddings if 0), in the model's number format. Where
    rows are not embedded yet, it is computed when it is first read.
    pending: computes `hidden`; None once it is there.
    unpadded: the same states without padding, if the runtime has them; `defer` sets it, and new `hidden` states end it.
    lengths: real tokens of each row, on the host.
    valid: the same as a mask, bool [rows, length] on the device; None if no row is padded. Computed when it is first read where
    rows are not embedded yet.
    context: of layer `layer`, if `attend` computed it.
    average: 1/L at the real tokens of each row, 0 at padding, to take means over tokens with: [rows, 1, length, 1], in the
    format of `hidden`.
    kept_tokens: the remaining tokens, in models that drop tokens: length and `lengths` count these alone. None in all others,
    and once a state was read at chosen positions.
    """

    __slots__ = ("_average", "_hidden", "_valid", "context", "kept_tokens", "layer", "lengths", "pending", "unpadded")

    def __init__(
        self,
        hidden: torch.Tensor | Callable[[], torch.Tensor],
        lengths: tuple[int, ...],
        valid: torch.Tensor | Callable[[], torch.Tensor | None] | None,
        layer: int = 0,
        context: Context | None = None,
        kept_tokens: KeptTokens | None = None,
    ) -> None:
        """`hidden` and `valid` may be functions that compute them."""
        self._hidden: torch.Tensor | None
        self.pending: Callable[[], torch.Tensor] | None
        self.unpadded: object | None
        if isinstance(hidden, torch.Tensor):
            self.hidden = hidden
        else:
            self.defer(hidden)
        self.lengths = lengths
        self._average: torch.Tensor | None = None
        self._valid = valid
        self.layer = layer
        self.context = context
        self.kept_tokens = kept_tokens

    @property
    def hidden(self) -> torch.Tensor:
        if self._hidden is None:
            if self.pending is None:
                raise RuntimeError("a state has neither hidden states nor a way to compute them")
            # What computes them may hold memory.
            self._hidden, self.pending = self.pending(), None
        return self._hidden

    @hidden.setter
    def hidden(self, hidden: torch.Tensor) -> None:
        self._hidden, self.pending, self.unpadded = hidden, None, None

    def defer(self, compute: Callable[[], torch.Tensor], unpadded: object | None = None) -> None:
        """Sets `hidden` to what a function will compute when it is first read, from `unpadded` states if these are there."""
        self._hidden, self.pending, self.unpadded = None, compute, unpadded

    @property
    def valid(self) -> torch.Tensor | None:
        if self._valid is not None and not isinstance(self._valid, torch.Tensor):
            self._valid = self._valid()
        return self._valid

    @valid.setter
    def valid(self, valid: torch.Tensor | None) -> None:
        self._valid, self._average = valid, None

    @property
    def average(self) -> torch.Tensor:
        if self._average is None:
            self._average = self._shares()
        return self._average

    def _shares(self) -> torch.Tensor:
        if self.valid is None:
            length = self.hidden.shape[1]
            return self.hidden.new_full((len(self.lengths), 1, length, 1), 1.0 / length)
        real = self.valid.to(torch.float32)
        return (real / real.sum(dim=1, keepdim=True)).to(self.hidden.dtype)[:, None, :, None]

    def rows(self, indices: Sequence[int]) -> list[State]:
        """Returns copies of some rows without their padding; they hold no memory of the batch."""
        if not indices:
            return []
        views: list[torch.Tensor] = []
        for index in indices:
            length = self.lengths[index]
            views.append(self.hidden[index, :length])
            if self.context is not None:
                views += [self.context.own[index, :length], self.context.mean[index]]
        copies = [torch.empty_like(view) for view in views]
        torch._foreach_copy_(copies, views)  # one launch for all
        rows, rest = [], (copy[None] for copy in copies)
        for index in indices:
            hidden, length = next(rest), self.lengths[index]
            context = None if self.context is None else Context(next(rest), next(rest))
            left = None if self.kept_tokens is None else self.kept_tokens.row(index, length)
            rows.append(State(hidden, (length,), None, self.layer, context, left))
        return rows

    def row(self, index: int) -> State:
        """Returns a copy of one row; see `rows`."""
        return self.rows([index])[0]

    def twice(self) -> State:
        """Returns a batch with all rows, and then all rows again. The state holds no context, and all tokens."""
        if self.context is not None or self.kept_tokens is not None:
            raise ValueError("a context and kept tokens are of one run")
        valid = None if self.valid is None else torch.cat((self.valid, self.valid))
        return State(torch.cat((self.hidden, self.hidden)), self.lengths * 2, valid, self.layer)

    @property
    def bytes(self) -> int:
        """The memory of its tensors."""
        tensors = [self.hidden] + ([] if self.context is None else [self.context.own, self.context.mean])
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)

    @staticmethod
    def stack(states: Sequence[State]) -> State:
        """Returns one batch of single rows at the same layer, all of them with a context or none."""
        first = states[0]
        if len(states) == 1:
            return State(first.hidden, first.lengths, None, first.layer, first.context, first.kept_tokens)
        lengths = tuple(state.lengths[0] for state in states)
        hidden = _padded([state.hidden[0] for state in states])
        contexts = [state.context for state in states if state.context is not None]
        context = None
        if contexts:
            context = Context(_padded([one.own[0] for one in contexts]), torch.cat([one.mean for one in contexts]))
        left = [state.kept_tokens for state in states if state.kept_tokens is not None]
        kept_tokens = KeptTokens.stack(left) if left else None
        return State(hidden, lengths, valid_mask(lengths, hidden.device), first.layer, context, kept_tokens)


def _padded(tensors: list[torch.Tensor]) -> torch.Tensor:
    """Pads tensors [length, ...] into one [rows, longest, ...]."""
    return torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True)


def valid_mask(lengths: Sequence[int], device: torch.device) -> torch.Tensor | None:
    """Returns the mask of real positions of a batch, bool [rows, longest], or None if all are real."""
    real = real_positions(lengths)
    return None if real is None else to_device(torch.from_numpy(real), device)


def real_positions(lengths: Sequence[int]) -> NDArray[np.bool_] | None:
    """Returns the mask of real positions of a batch on the host, [rows, longest], or None if all are real."""
    longest = max(lengths)
    if min(lengths) == longest:
        return None
    real: NDArray[np.bool_] = np.arange(longest) < np.asarray(lengths)[:, None]
    return real


def to_device(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Copies a host tensor without making the host wait for the device."""
    if device.type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor
