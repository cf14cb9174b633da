"""Joint fillings of masks from their definition, in float64, one row of transformers at a time."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch
from bertscope_service.encoders.sequences import TokenSequence

from tests.support.reference import Reference

Chosen = tuple[tuple[int, int], ...]
"""Positions and the entries put there, in the order in which they were put."""


@dataclass
class Definition:
    """A checkpoint in float64."""

    folder: Path

    @cached_property
    def reference(self) -> Reference:
        return Reference(self.folder, torch.float64)

    def logs(self, sequence: TokenSequence, chosen: Chosen) -> torch.Tensor:
        """Logarithms of probabilities [length, vocabulary] with some entries in place."""
        ids = list(sequence.ids)
        for position, token in chosen:
            ids[position] = token
        logits = self.reference.run([TokenSequence(ids, sequence.segments)]).logits[0]
        assert logits.dtype == torch.float64
        return logits.log_softmax(dim=-1)

    def score(self, sequence: TokenSequence, chosen: Chosen) -> list[float]:
        """The logarithm of each entry's probability, given those before it."""
        return [float(self.logs(sequence, chosen[:step])[place]) for step, place in enumerate(chosen)]

    def greedy(self, sequence: TokenSequence, positions: Sequence[int], top_k: int, *, confident: bool) -> list[float]:
        """Scores of the fillings that differ in the last mask to be filled, likeliest first."""
        chosen, total, left = (), 0.0, list(positions)
        while left:
            logs = self.logs(sequence, chosen)
            place = max(left, key=lambda position: float(logs[position].max())) if confident else left[0]
            left.remove(place)
            if not left:
                return [total + value for value in logs[place].topk(top_k).values.tolist()]
            value, token = logs[place].max(dim=-1)
            chosen, total = (*chosen, (place, int(token))), total + float(value)
        raise AssertionError("nothing to fill")

    def beam(self, sequence: TokenSequence, positions: Sequence[int], top_k: int, width: int) -> list[float]:
        """Scores of fillings, likeliest first, each step by the expansion of every partial filling by the whole vocabulary."""
        beams: list[tuple[float, Chosen]] = [(0.0, ())]
        for place in positions:
            expanded = [
                (total + value, (*chosen, (place, token)))
                for total, chosen in beams
                for token, value in enumerate(self.logs(sequence, chosen)[place].tolist())
            ]
            beams = sorted(expanded, key=lambda beam: -beam[0])[: top_k if place == positions[-1] else width]
        return [total for total, _ in beams]
