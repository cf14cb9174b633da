"""Batches without padding: the real tokens of all rows, one row behind the other.

Everything but attention reads one token at a time, and runs on [1, tokens, ...]. Attention runs by a kernel for sequences of
different lengths where PyTorch has one, else on padded queries, keys and values alone.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray

from bertscope_service.encoders.placement import PlacedRows, flat_rows, place_rows
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.encoders.state import State
from bertscope_service.encoders.transfers import place_arrays

HALF = (torch.bfloat16, torch.float16)
VARLEN_CAPABILITY = (8, 0)
"""The first compute capability with flash attention."""

VARLEN_HEAD_SIZES = range(8, 257, 8)


def has_varlen(device: torch.device, dtype: torch.dtype, head_size: int) -> bool:
    """Returns whether PyTorch has a kernel for attention within sequences of different lengths."""
    if device.type != "cuda" or dtype not in HALF or head_size not in VARLEN_HEAD_SIZES:
        return False
    from torch.nn.attention.varlen import varlen_attn

    known = "window_size" in inspect.signature(varlen_attn).parameters
    return known and torch.cuda.get_device_capability(device) >= VARLEN_CAPABILITY


def varlen_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    queries: Tokens,
    keys: Tokens,
    scaling: float,
    window: int | None = None,
) -> torch.Tensor:
    """Returns the contexts of queries [tokens, heads, head_size] among the keys and values of their row, in the same shape; at
    most `window` tokens to each side if that is given."""
    from torch.nn.attention.varlen import varlen_attn

    near = (-1, -1) if window is None else (window, window)
    lengths = (queries.starts, keys.starts, queries.longest, keys.longest)
    found = varlen_attn(query, key, value, *lengths, scale=scaling, window_size=near)
    return cast(torch.Tensor, found)  # the other form has to be asked for


def starts_of(lengths: Sequence[int]) -> NDArray[np.int32]:
    """Returns the first token of each row, and the number of all: [rows + 1]."""
    return np.cumsum((0, *lengths), dtype=np.int32)


def positions_of(lengths: Sequence[int]) -> NDArray[np.int64]:
    """Returns the position of each token in its row, [tokens]."""
    starts = starts_of(lengths)
    return np.arange(starts[-1]) - np.repeat(starts[:-1], lengths)


class Tokens:
    """The places of a batch's tokens, which lie row by row.

    lengths: the tokens of each row, at least 1, on the host. longest, count: the most tokens of a row, and those of all. width:
    the length of padded rows; the longest row's if None.
    """

    def __init__(self, lengths: Sequence[int], device: torch.device, width: int | None = None) -> None:
        self.lengths = tuple(lengths)
        self.longest, self.count = max(self.lengths), sum(self.lengths)
        self.width = self.longest if width is None else width
        self.device = device

    @property
    def padded(self) -> bool:
        """True if padded rows have padding."""
        return self.count < len(self.lengths) * self.width

    @cached_property
    def _placed(self) -> tuple[torch.Tensor, ...]:
        """All that layers need, in one copy: `starts`, and the place of each token among padded rows, int64 [tokens]."""
        if not self.padded:
            return (torch.arange(0, self.count + 1, self.longest, dtype=torch.int32, device=self.device),)
        return place_arrays(self.device, starts_of(self.lengths), np.flatnonzero(self._real()))

    @cached_property
    def starts(self) -> torch.Tensor:
        """The first token of each row, and the number of all: int32 [rows + 1]."""
        return self._placed[0]

    @cached_property
    def _sources(self) -> torch.Tensor:
        """The token at each place of padded rows, int64 [rows * width]; any token at padding."""
        return self._place(np.maximum(np.cumsum(self._real()) - 1, 0))

    @cached_property
    def _rows(self) -> torch.Tensor:
        """The row of each token, int64 [tokens]."""
        return self._place(np.repeat(np.arange(len(self.lengths)), self.lengths))

    @cached_property
    def positions(self) -> torch.Tensor:
        """The position of each token in its row, int64 [1, tokens]."""
        return self._place(positions_of(self.lengths))[None]

    @cached_property
    def valid(self) -> torch.Tensor | None:
        """The mask of real positions among padded rows, bool [rows, width]; None if there is no padding."""
        if not self.padded:
            return None
        (real,) = place_arrays(self.device, self._real())
        return real.view(len(self.lengths), self.width)

    def _real(self) -> NDArray[np.bool_]:
        return (np.arange(self.width) < np.asarray(self.lengths)[:, None]).ravel()

    def _place(self, values: NDArray[np.int64]) -> torch.Tensor:
        return place_arrays(self.device, values)[0]

    def unpad(self, padded: torch.Tensor) -> torch.Tensor:
        """Returns the real tokens of [rows, width, ...], [tokens, ...]."""
        flat = padded.flatten(0, 1)
        return flat.index_select(0, self._placed[1]) if self.padded else flat

    def pad(self, flat: torch.Tensor) -> torch.Tensor:
        """Returns [tokens, ...] as padded rows, [rows, width, ...]. Padding holds what some token has."""
        whole = flat.index_select(0, self._sources) if self.padded else flat
        padded: torch.Tensor = whole.unflatten(0, (len(self.lengths), self.width))
        return padded

    def of_rows(self, values: torch.Tensor) -> torch.Tensor:
        """Returns [rows, ...] for each token, [tokens, ...]."""
        return values.index_select(0, self._rows)

    def at(self, rows: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Returns the tokens at positions of rows, int64 [n] both, [n]."""
        return self.starts[rows] + positions

    def pick(self, flat: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Returns [tokens, ...] at some positions of each row, int64 [rows, n]: [rows, n, ...]."""
        return flat[self.starts[:-1, None] + positions]


@dataclass(frozen=True, slots=True)
class Layout:
    """How the tokens lie that a layer's heads read: queries, keys and values as [1, heads, tokens, head_size] each, or queries
    of n positions of each row as [rows, heads, n, head_size].

    varlen: whether `varlen_attention` may be used. window: the most tokens to each side that a query attends to; None for all.
    """

    queries: Tokens
    keys: Tokens
    varlen: bool
    window: int | None = None


@dataclass(frozen=True, slots=True)
class UnpaddedStates:
    """The hidden states of a batch, [tokens, hidden_size], and the places of its tokens."""

    tokens: Tokens
    hidden: torch.Tensor

    @classmethod
    def of(cls, state: State) -> UnpaddedStates:
        """Returns the states of a batch without its padding."""
        if isinstance(state.unpadded, cls):
            return state.unpadded
        if state.pending is not None and (rows := UnembeddedRows.of(state)) is not None:
            return rows.embed()
        tokens = Tokens(state.lengths, state.hidden.device, state.hidden.shape[1])
        return cls(tokens, tokens.unpad(state.hidden))

    def put(self, state: State) -> None:
        """Makes these the states of a batch, which pads them when they are read so."""
        state.defer(partial(self.tokens.pad, self.hidden), self)


class UnembeddedRows:
    """The rows of a batch on the host, embedded once it is known how: without padding, on padded places, or by a graph.

    lengths: the tokens of each row.
    """

    def __init__(
        self,
        sequences: Sequence[TokenSequence],
        device: torch.device,
        padding: int,
        embed: Callable[..., torch.Tensor],
        *,
        unpadded: bool,
    ) -> None:
        """`embed` is an architecture's; `unpadded` says whether it takes tokens without padding. Padded rows are filled up with
        the token `padding`."""
        self.lengths = tuple(map(len, sequences))
        self._sequences, self._device, self._padding = sequences, device, padding
        self._embed, self._unpadded = embed, unpadded
        self._inference, self._gradients = torch.is_inference_mode_enabled(), torch.is_grad_enabled()

    @classmethod
    def of(cls, state: State) -> UnembeddedRows | None:
        """Returns the rows of a state before all layers that is as it began, whether somebody has read it or not."""
        return state.unpadded if isinstance(state.unpadded, cls) else None

    def state(self) -> State:
        """Returns the state of these rows."""
        state = State(self._padded, self.lengths, self._valid)
        state.defer(self._padded, self)
        return state

    @property
    def ids(self) -> NDArray[np.int64]:
        """The ids of all tokens, row by row."""
        return flat_rows([sequence.ids for sequence in self._sequences])

    @property
    def segments(self) -> NDArray[np.int64]:
        """Likewise their segments."""
        return flat_rows([sequence.segments for sequence in self._sequences])

    @cached_property
    def _placed(self) -> PlacedRows:
        return place_rows(self._sequences, self._device, self._padding)

    def _valid(self) -> torch.Tensor | None:
        return None if min(self.lengths) == max(self.lengths) else self._placed.valid

    def _padded(self) -> torch.Tensor:
        return self._embedded(self._placed.ids, self._placed.segments, self._placed.valid)

    def embed(self) -> UnpaddedStates:
        """Returns the states of the tokens without padding."""
        tokens = Tokens(self.lengths, self._device)
        if not self._unpadded:
            return UnpaddedStates(tokens, tokens.unpad(self._padded()))
        of_tokens = (np.asarray(each, dtype=np.int64)[None] for each in (self.ids, self.segments, positions_of(self.lengths)))
        tokens.starts, ids, segments, places = place_arrays(self._device, starts_of(self.lengths), *of_tokens)
        tokens.positions = places
        return UnpaddedStates(tokens, self._embedded(ids, segments, None, places)[0])

    def _embedded(self, *arguments: torch.Tensor | None) -> torch.Tensor:
        """Embeds as the one who began the batch would have: whoever reads it may want gradients of what follows alone."""
        with torch.inference_mode(self._inference), torch.set_grad_enabled(self._gradients):
            return self._embed(*arguments)
