"""Follows the direct paths from parts of a model to others, with all parts between them frozen (path patching, Goldowsky-Dill
et al. 2023; Wang et al. 2023, section 3.1)."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.decomposition import decomposition_of
from bertscope_service.encoders.edits import BatchEdits
from bertscope_service.encoders.observer import Observer, Readout
from bertscope_service.encoders.paths import FollowsPaths, Receiver, Sender
from bertscope_service.encoders.sites import Place, Site
from bertscope_service.encoders.state import State
from bertscope_service.encoders.transfers import place_arrays

Vectors = Mapping[Place, NDArray[np.float32]]
"""Vectors of one run, [tokens, size]."""


@dataclass(frozen=True, slots=True, eq=False)
class PathsObserver(Observer):
    """Returns, for each of `receivers` of a layer, what it gives if it alone reads its input with a sender's output of the
    other run: float32 [senders, tokens, size], of heads side by side; of LOGITS the last states, `layer` being their number.

    The residual stream is summed and normalised anew from the sender on, with what all other parts gave in the base run.
    senders: ascending by layer, of one layer heads first; heads of `layer` itself reach its feed-forward block alone. base,
    other: vectors of both runs at `places_on_paths`. A row has a batch of its own.
    """

    layer: int
    receivers: tuple[Receiver, ...]
    senders: tuple[Sender, ...]
    base: Vectors
    other: Vectors

    @property
    def group(self) -> Hashable:
        return id(self)

    @classmethod
    def run(cls, encoder: Encoder, state: State, edits: BatchEdits | None, observers: Sequence[Self]) -> Readout:
        found: object = decomposition_of(encoder)
        if not isinstance(found, FollowsPaths):
            raise TypeError(f"{type(encoder).__name__} can't follow paths")
        tensors = _Streams(encoder, found, observers[0]).outputs()
        return Readout(tuple(tensor.float() for tensor in tensors), lambda arrays: [list(arrays)])


class _Streams:
    """The residual stream of each sender that has been met: [senders, tokens, hidden_size]."""

    def __init__(self, encoder: Encoder, parts: FollowsPaths, asked: PathsObserver) -> None:
        self._encoder, self._parts, self._asked = encoder, parts, asked
        size = encoder.shape.hidden_size
        length = len(next(iter(asked.base.values())))
        self._streams = torch.zeros((0, length, size), dtype=torch.float32, device=encoder.device)

    def outputs(self) -> list[torch.Tensor]:
        asked = self._asked
        for layer in range(asked.senders[0].layer, asked.layer):
            self._add_heads(layer)
            self._add_feed_forward(layer)
        outputs: dict[Receiver, torch.Tensor] = {}
        for receiver in asked.receivers:
            if receiver is not Receiver.FEED_FORWARD:
                outputs[receiver] = self._received(receiver)
        if Receiver.FEED_FORWARD in asked.receivers:
            self._add_heads(asked.layer)
            outputs[Receiver.FEED_FORWARD] = self._received(Receiver.FEED_FORWARD)
        return [outputs[receiver] for receiver in asked.receivers]

    def _received(self, receiver: Receiver) -> torch.Tensor:
        if receiver is Receiver.LOGITS or not len(self._streams):
            return self._streams
        layer = self._asked.layer
        return self._parts.received(receiver, layer, self._streams, self._base(Site.STATE, layer))

    def _add_heads(self, layer: int) -> None:
        """Adds a layer's heads, and the streams of those among the senders."""
        attended = self._base(Site.ATTENTION_OUTPUT, layer)
        streams = self._streams + attended
        heads = [sender.head for sender in self._asked.senders if sender.layer == layer and sender.head is not None]
        if heads:
            kept = self._encoder.shape.heads_of(layer)
            moved = self._place(self._asked.other, Site.HEAD_OUTPUT, layer) - self._base(Site.HEAD_OUTPUT, layer)
            by_head = moved.unflatten(2, (self._encoder.shape.heads, -1))[0]
            projection = self._parts.projection(layer)
            added = torch.stack([by_head[:, head] @ projection[kept.index(head)] for head in heads])
            streams = torch.cat((streams, self._base(Site.STATE, layer) + attended + added))
        self._streams = self._parts.normalised(layer, streams, after_heads=True)

    def _add_feed_forward(self, layer: int) -> None:
        given = self._base(Site.FEED_FORWARD_OUTPUT, layer)
        streams = self._streams + given
        if Sender(layer, None) in self._asked.senders:
            read = self._base(Site.STATE, layer) + self._base(Site.ATTENTION_OUTPUT, layer)
            attended = self._parts.normalised(layer, read, after_heads=True)
            streams = torch.cat((streams, attended + self._place(self._asked.other, Site.FEED_FORWARD_OUTPUT, layer)))
        self._streams = self._parts.normalised(layer, streams, after_heads=False)

    def _base(self, site: Site, layer: int) -> torch.Tensor:
        return self._place(self._asked.base, site, layer)

    def _place(self, vectors: Vectors, site: Site, layer: int) -> torch.Tensor:
        (placed,) = place_arrays(self._encoder.device, vectors[site, layer][None])
        return placed


def places_on_paths(first: int, layer: int, layers: int) -> tuple[Place, ...]:
    """Returns the places whose vectors a `PathsObserver` reads, from the layer of the first sender to that of the receivers."""
    passed = range(first, min(layer, layers - 1) + 1)
    inner = (Site.STATE, Site.HEAD_OUTPUT, Site.ATTENTION_OUTPUT, Site.FEED_FORWARD_OUTPUT)
    return tuple((site, number) for number in passed for site in inner)


def results_of(asked: PathsObserver, arrays: Sequence[NDArray[Any]]) -> dict[tuple[Receiver, Sender], NDArray[np.float32]]:
    """Returns what each receiver gives for each sender that reaches it."""
    found: dict[tuple[Receiver, Sender], NDArray[np.float32]] = {}
    before = [sender for sender in asked.senders if sender.layer < asked.layer]
    beside = [sender for sender in asked.senders if sender.layer == asked.layer and sender.head is not None]
    for receiver, array in zip(asked.receivers, arrays, strict=True):
        reaching = before + beside if receiver is Receiver.FEED_FORWARD else before
        found |= {(receiver, sender): each for sender, each in zip(reaching, array, strict=True)}
    return found
