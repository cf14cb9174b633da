"""Reads the masked-LM head from the states between layers, at some positions of a row ("logit lens", nostalgebraist 2020)."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray

from bertscope_service.analyses.observers.masks import MaskObserver
from bertscope_service.analyses.observers.reading import Reading, rows_at_a_time, widen
from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.decomposition import decomposition_of
from bertscope_service.encoders.edits import BatchEdits
from bertscope_service.encoders.observer import Readout
from bertscope_service.encoders.state import State, to_device


@dataclass(slots=True, eq=False)
class LensScores:
    """The predictions at a row's positions P from S states: natural logarithms of probabilities over the whole vocabulary.

    top_ids, top_logs: [P, S, top_k], likeliest first. asked_logs: [P, S, C]; asked_ranks: [P, S, C], 1 is the likeliest.
    entropies, divergences: nats, float64 [P, S]; a divergence is KL(last || this).
    """

    top_ids: NDArray[np.int64]
    top_logs: NDArray[np.float32]
    asked_logs: NDArray[np.float32]
    asked_ranks: NDArray[np.int64]
    entropies: NDArray[np.float64]
    divergences: NDArray[np.float64]


def joined(parts: Sequence[LensScores]) -> LensScores:
    """Returns the predictions at the positions of all parts, in order."""
    if len(parts) == 1:
        return parts[0]
    return LensScores(*(np.concatenate([getattr(part, one.name) for part in parts]) for one in fields(LensScores)))


@dataclass(frozen=True, slots=True, eq=False)
class Translators:
    """Maps of a tuned lens (Belrose et al. 2023), by layer: float32 [hidden_size + 1, hidden_size], a matrix with biases as its
    last row."""

    maps: Mapping[int, NDArray[np.float32]]

    def apply(self, layer: int, states: torch.Tensor) -> torch.Tensor:
        """Returns the states [n, hidden_size] of a layer after its map."""
        affine = to_device(torch.from_numpy(self.maps[layer]), states.device)
        return torch.addmm(affine[-1], states.float(), affine[:-1]).to(states.dtype)


@dataclass(frozen=True, slots=True, eq=False)
class LensObserver:
    """Reads the predictions at some positions from the states `layers`, each 0 to all layers, in this order: the top k, and
    given ids, `asked` [P, C] (C may be 0).

    `normalise`: whether the last normalisation of the model is applied to the states before the last. `translators`: maps that
    these states get first. The last state runs as MaskObserver runs it, so that it gives the same predictions.
    """

    reads_places: ClassVar[bool] = False
    positions: tuple[int, ...]
    layers: tuple[int, ...]
    top_k: int
    asked: NDArray[np.int64]
    normalise: bool
    translators: Translators | None = None

    @property
    def group(self) -> Hashable:
        return self.layers, self.top_k, self.normalise, self.translators

    @classmethod
    def run(cls, encoder: Encoder, state: State, edits: BatchEdits | None, observers: Sequence[Self]) -> Readout:
        first = observers[0]
        width = max(observer.asked.shape[1] for observer in observers)
        asked = np.concatenate([widen(observer.asked, width) for observer in observers])
        read = Reading(encoder, [observer.positions for observer in observers], asked)
        (placed,) = read.others
        states = run_states(encoder, state, edits, read, first.layers, normalise=first.normalise, translators=first.translators)
        found = list[tuple[torch.Tensor, ...]]()
        for part, last in read.logits(state):
            by_layer = []
            for layer in first.layers:
                logits = last if layer == encoder.shape.layers else logits_of(encoder, states[layer][part])
                by_layer.append((*MaskObserver.read(logits, placed[part], first.top_k, None), *spread(logits, last)))
            found.append(tuple(torch.stack(tensors, dim=1) for tensors in zip(*by_layer, strict=True)))

        def deal(arrays: tuple[NDArray[Any], ...]) -> list[LensScores]:
            results = [LensScores(*parts) for parts in zip(*map(read.split, arrays), strict=True)]
            for observer, scores in zip(observers, results, strict=True):
                count = observer.asked.shape[1]
                scores.asked_logs, scores.asked_ranks = scores.asked_logs[..., :count], scores.asked_ranks[..., :count]
            return results

        return Readout(tuple(map(torch.cat, zip(*found, strict=True))), deal)


def run_states(
    encoder: Encoder,
    state: State,
    edits: BatchEdits | None,
    read: Reading,
    layers: Collection[int],
    *,
    normalise: bool = False,
    translators: Translators | None = None,
) -> Mapping[int, torch.Tensor]:
    """Runs all layers. Returns the states of `layers` before the last at the positions to read: [n, hidden_size] each."""
    last = encoder.shape.layers
    decomposition = decomposition_of(encoder)
    if normalise and decomposition is None:
        raise ValueError(f"{encoder.runtime} has no last normalisation")
    positions = read.only[read.rows, read.places]
    states = dict[int, torch.Tensor]()
    for layer in sorted({*layers} - {last}):
        encoder.advance(state, layer, edits)
        between = state.hidden[read.rows, positions]
        if translators is not None:
            between = translators.apply(layer, between)
        states[layer] = decomposition.normalise_last(between) if normalise and decomposition is not None else between
    read.advance(state, edits)
    return states


def logits_of(encoder: Encoder, hidden: torch.Tensor) -> torch.Tensor:
    """Returns the scores of the masked-LM head over the vocabulary, float32 [n, vocabulary], from states [n, hidden_size]."""
    rows = torch.zeros(len(hidden), dtype=torch.int64, device=hidden.device)
    places = torch.arange(len(hidden), dtype=torch.int64, device=hidden.device)
    return encoder.logits(State(hidden[None], (len(hidden),), None, encoder.shape.layers), rows, places)


def spread(logits: torch.Tensor, last: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the entropy of distributions over the vocabulary and KL(last || this), nats, float64 [n] each, from scores [n,
    vocabulary]."""
    rows = rows_at_a_time(logits)
    entropies, divergences = [], []
    for scores, wanted in zip(logits.split(rows), last.split(rows), strict=True):
        logs, last_logs = scores.log_softmax(dim=-1), wanted.log_softmax(dim=-1)
        entropies.append(torch.special.entr(logs.exp()).sum(dim=-1, dtype=torch.float64))
        divergences.append((last_logs.exp() * (last_logs - logs)).sum(dim=-1, dtype=torch.float64))
    # Equal distributions differ by rounding.
    return torch.cat(entropies), torch.cat(divergences).clamp(min=0.0)
