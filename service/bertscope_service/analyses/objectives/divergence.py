"""Divergence of predictions from those of the untouched model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from bertscope_service.analyses.label_distributions import Labelling, label_observers
from bertscope_service.analyses.metrics import Metric
from bertscope_service.analyses.observers.predictions import LastStatesObserver, LossObserver, PredictionsObserver
from bertscope_service.analyses.texts import check_finite, mask_positions, read_inputs
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.encoders.observer import Observer
from bertscope_service.encoders.sequences import TokenSequence

FIELD = "objective.divergence.inputs"


@dataclass(frozen=True, slots=True)
class DivergenceQuery:
    """A query for divergences; see bertscope.v1.Divergence."""

    metrics: ClassVar[tuple[Metric, ...]] = (Metric.DIVERGENCE,)
    has_loss: ClassVar[bool] = False

    inputs: tuple[tuple[str, str | None], ...]
    truncate: bool


class _Inputs:
    """One row for each input."""

    metrics = DivergenceQuery.metrics
    losses: Sequence[LossObserver] = ()
    skipped = 0

    def __init__(self, query: DivergenceQuery, tokenizer: TextTokenizer) -> None:
        """Tokenizes the inputs. Raises InvalidArgument for an input that is too long or holds no token."""
        self.items = len(query.inputs)
        self._texts = list(read_inputs(tokenizer, query.inputs, FIELD, truncate=query.truncate))
        self.sequences: Sequence[TokenSequence] = [tokenized.sequence for tokenized in self._texts]
        self.truncated = sum(bool(tokenized.truncated) for tokenized in self._texts)


class MaskDivergenceObjective(_Inputs):
    """KL(untouched || changed) over the vocabulary, at the masks of each input. Raises InvalidArgument for an input without
    a mask."""

    def __init__(self, query: DivergenceQuery, tokenizer: TextTokenizer) -> None:
        super().__init__(query, tokenizer)
        self._masks = [mask_positions(tokenized, tokenizer, f"{FIELD}[{index}]") for index, tokenized in enumerate(self._texts)]
        self.observers: Sequence[Observer] = [LastStatesObserver(positions) for positions in self._masks]
        self.pieces = sum(map(len, self._masks))

    def later_observers(self, untouched: Sequence[torch.Tensor]) -> Sequence[Observer]:
        return [PredictionsObserver(positions, hidden) for positions, hidden in zip(self._masks, untouched, strict=True)]

    def measure(self, seen: Sequence[torch.Tensor | NDArray[np.float32]]) -> NDArray[np.float64]:
        """Returns [1, inputs]: the mean over the masks, nats; 0 for the untouched run itself.

        The untouched run's hidden states stay on their device unread: if they were not finite, no later divergence would be.
        """
        if isinstance(seen[0], torch.Tensor):
            return np.zeros((1, self.items))
        means = np.array([np.asarray(divergences).mean(dtype=np.float64) for divergences in seen])
        check_finite([means])
        return means[None]


class LabelDivergenceObjective(_Inputs):
    """KL(untouched || changed) over the labels of each input, the mean over its words or over the labels that may each hold.

    Raises InvalidArgument for an input without a word, if words are labelled.
    """

    pieces = 0

    def __init__(self, query: DivergenceQuery, tokenizer: TextTokenizer, labelling: Labelling) -> None:
        super().__init__(query, tokenizer)
        self._labelling = labelling
        self.observers: Sequence[Observer] = [
            label_observers(labelling, [tokenized], [tokenizer], f"{FIELD}[{index}]")[0]
            for index, tokenized in enumerate(self._texts)
        ]
        self._untouched: Sequence[NDArray[np.float64]] = ()

    def later_observers(self, untouched: Sequence[NDArray[np.float32]]) -> Sequence[Observer]:
        self._untouched = [self._labelling.logs(scores) for scores in untouched]
        return self.observers

    def measure(self, seen: Sequence[NDArray[np.float32]]) -> NDArray[np.float64]:
        """Returns [1, inputs], nats; 0 for the untouched run itself."""
        changed = [self._labelling.logs(scores) for scores in seen]
        pairs = zip(self._untouched or changed, changed, strict=True)
        divergences = np.array([(np.exp(own) * (own - other)).sum(axis=1).mean() for own, other in pairs])
        return divergences.clip(min=0.0)[None]
