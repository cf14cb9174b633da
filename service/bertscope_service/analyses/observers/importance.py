"""Gradient importance of heads (Michel et al. 2019, section 4): |d loss / d gate|, per text, then averaged."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from bertscope_service.analyses.observers.predictions import LossObserver
from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.edits import BatchEdits
from bertscope_service.encoders.gating import untouched
from bertscope_service.encoders.observer import Readout
from bertscope_service.encoders.size_limits import size_limits
from bertscope_service.encoders.state import State


@dataclass(frozen=True, slots=True)
class GradientObserver:
    """Computes the loss of a row and its absolute derivative with respect to a gate on each head's context.

    The result is (loss in nats, float32 [layers, heads]). A text alone and in a batch gives the same result: rows don't mix,
    so one backward pass from the sum of the losses to gates [rows, layers, heads] leaves each row's own derivative.
    """

    loss: LossObserver

    @property
    def group(self) -> Hashable:
        return type(self.loss), self.loss.group

    @classmethod
    def run(cls, encoder: Encoder, state: State, edits: BatchEdits | None, observers: Sequence[Self]) -> Readout:
        losses, gradients = [], []
        with torch.inference_mode(False), torch.enable_grad():
            for part in parts_of(state):
                own = [observer.loss for observer in observers[part]]
                placed = _differentiable(encoder, edits, part, len(own))
                loss = type(own[0]).losses(encoder, some_rows(state, part, state.hidden[part].clone()), placed, own)
                (gradient,) = torch.autograd.grad(loss.sum(), placed.keep)
                losses.append(loss.detach().float())
                gradients.append(gradient.abs().float())

        def deal(arrays: tuple[NDArray[Any], ...]) -> list[tuple[float, NDArray[np.float32]]]:
            return list(zip(arrays[0].tolist(), arrays[1], strict=True))

        return Readout((torch.cat(losses), torch.cat(gradients)), deal)


def parts_of(state: State) -> Iterator[slice]:
    """Yields slices of a batch's rows, each for one backward pass."""
    rows, length = state.hidden.shape[:2]
    size = max(1, size_limits(state.hidden.device).gradient_tokens // length)
    return (slice(begin, begin + size) for begin in range(0, rows, size))


def some_rows(state: State, part: slice, hidden: torch.Tensor) -> State:
    """Returns some rows of a batch with these hidden states; the mask is copied, as autograd refuses tensors that were made in
    inference mode."""
    valid = None if state.valid is None else state.valid[part].clone()
    return State(hidden, state.lengths[part], valid, state.layer)


def some_gates(edits: BatchEdits, part: slice) -> BatchEdits:
    """Copies the gates of some rows, for the same reason."""
    constant = {layer: values[part].clone() for layer, values in edits.constant.items()}
    sites = None if edits.sites is None else edits.sites.part(part)
    return BatchEdits(
        edits.keep[part].clone(), edits.uniform[part].clone(), edits.layers, edits.uniform_layers, constant, sites
    )


def _differentiable(encoder: Encoder, edits: BatchEdits | None, part: slice, rows: int) -> BatchEdits:
    """Returns the gates of some rows, in every layer, with a `keep` that requires its gradient."""
    placed = untouched(rows, encoder) if edits is None else some_gates(edits, part)
    found = replace(placed, layers=frozenset(range(encoder.shape.layers)))
    found.keep.requires_grad_()
    return found


def normalised(gradient: NDArray[np.float64]) -> NDArray[np.float64]:
    """Divides each layer of [layers, heads] by its l2 norm; a layer of zeros stays zero."""
    norms = np.sqrt((gradient**2).sum(axis=1, keepdims=True))
    return gradient / np.where(norms > 0, norms, 1.0)
