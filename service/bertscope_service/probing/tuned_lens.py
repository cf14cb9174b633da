"""Trains the maps of a tuned lens, those of all layers at once (Belrose et al. 2023, section 3).

A layer's map is a matrix [hidden, hidden] and biases [hidden]: the head gets h M + b where the plain lens gives it h. Training
minimises the mean over pieces of KL(last || this) in nats, from M = 1 and b = 0, by Adam (Kingma and Ba 2015). The learning
rate of a map is halved after each epoch that does not lower its divergence on the dev pieces. The map with the lowest is kept:
the first, which changes nothing, if none is lower.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
import torch
from numpy.typing import NDArray

from bertscope_service.encoders.size_limits import CPU, SizeLimits, size_limits
from bertscope_service.probing.adam import adam_step
from bertscope_service.probing.blocks import step_tokens

BATCH = 64
"""Pieces in a step."""
COPIES = 7
"""Tensors as large as the maps: they, their gradient, the sum of gradients, Adam's averages, the best so far, and one more."""
SCORE_COPIES = 6
"""Tensors as large as a part's scores over the vocabulary."""

Head = Callable[[torch.Tensor, bool], torch.Tensor]
"""Gives scores over the vocabulary, float32 [n, vocabulary], of states [n, hidden]; True of those of the last layer."""


@dataclass(frozen=True, slots=True)
class LensSize:
    """The size of a training: layers with a map, length of a state, entries of the vocabulary; and the device that trains."""

    layers: int
    hidden: int
    vocabulary: int
    device: torch.device = CPU

    @property
    def limits(self) -> SizeLimits:
        """The sizes that the device works on at a time."""
        return size_limits(self.device)

    @property
    def part(self) -> int:
        """The pieces in a part of a step."""
        return max(1, min(BATCH, self.limits.vocabulary_products // (self.layers * self.hidden * self.vocabulary)))

    @property
    def bytes(self) -> int:
        """The memory that training takes beside the states, approximately."""
        maps = self.layers * self.hidden * (self.hidden + 1)
        return 4 * (COPIES * maps + SCORE_COPIES * self.part * (self.layers + 1) * self.vocabulary)

    def parts(self, rows: torch.Tensor) -> Iterator[tuple[torch.Tensor, slice]]:
        """Yields the numbers of some pieces, and layers, in parts that are read at a time."""
        layers = self._slices(self.limits.vocabulary_products // (self.part * self.hidden * self.vocabulary))
        yield from product(rows.split(self.part), layers)

    def updates(self) -> list[slice]:
        """Returns the layers whose maps are updated in a step each."""
        return self._slices(self.limits.updated_values // (self.hidden * (self.hidden + 1)))

    @property
    def part_tokens(self) -> int:
        """The tokens that reading a part counts as; see blocks.step_tokens. Training takes twice as many."""
        layers = min(self.layers, max(1, self.limits.vocabulary_products // (self.part * self.hidden * self.vocabulary)))
        return step_tokens((layers + 1) * self.part * self.hidden * self.vocabulary)

    def _slices(self, layers: int) -> list[slice]:
        """Returns the layers in parts of at most so many, or of one."""
        most = max(1, layers)
        return [slice(begin, min(begin + most, self.layers)) for begin in range(0, self.layers, most)]


@dataclass(slots=True, eq=False)
class LensFits:
    """How layers are read: means of KL(last || this), nats, and pieces whose likeliest entry is that of the last layer, both
    [layers]."""

    divergence: NDArray[np.float64]
    agreeing: NDArray[np.int64]


class TranslatorTraining:
    """Maps of several layers that train together. Methods run on the device's thread, outside inference mode.

    States are [pieces, layers + 1, hidden], those of the last layer last; of some layers, those and the last.
    """

    def __init__(self, size: LensSize, head: Head, device: torch.device, rate: float, patience: int) -> None:
        self.size, self.head, self.device, self.patience = size, head, device, patience
        one = torch.eye(size.hidden, dtype=torch.float32, device=device)
        zero = torch.zeros((1, size.hidden), dtype=torch.float32, device=device)
        self.maps = torch.cat((one, zero)).repeat(size.layers, 1, 1)
        """The matrices, and biases as their last row, [layers, hidden + 1, hidden]."""
        self.best, self.best_steps = self.maps.clone(), np.zeros(size.layers, dtype=np.int64)
        self.steps = self.epoch = 0
        self.before: LensFits | None = None
        self._kept: LensFits | None = None
        self._rate = torch.full((size.layers, 1, 1), rate, dtype=torch.float32, device=device)
        self._mean, self._square, self._gradient = (torch.zeros_like(self.maps) for _ in range(3))
        self._waited = np.zeros(size.layers, dtype=np.int64)

    @property
    def after(self) -> LensFits:
        """The fits of the best maps so far. There must have been a `judge`."""
        if self._kept is None:
            raise RuntimeError("maps were not judged yet")
        return self._kept

    def accumulate(self, states: torch.Tensor, layers: slice, pieces: int) -> None:
        """Adds the gradient of some pieces of a step of so many, for some layers."""
        maps = self.maps[layers].detach().requires_grad_()
        with torch.enable_grad():
            logs, last = self._logs(states, maps)
            loss = divergences(logs, last).sum() / pieces
            (gradient,) = torch.autograd.grad(loss, (maps,))
        self._gradient[layers] += gradient

    @torch.no_grad()
    def update(self, layers: slice) -> None:
        """Takes Adam's step along the gradients added, for some layers; the last ones end the step."""
        averages = self._mean[layers], self._square[layers]
        adam_step(self.maps[layers], self._gradient[layers], averages, self._rate[layers], self.steps + 1)
        self._gradient[layers].zero_()
        self.steps += layers.stop == self.size.layers

    @torch.no_grad()
    def evaluate(self, states: torch.Tensor, layers: slice) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the sums of divergences, float64, and the pieces that agree with the last layer, int64, of some layers."""
        logs, last = self._logs(states, self.maps[layers])
        agreeing = (logs.argmax(dim=-1) == last.argmax(dim=-1)).sum(dim=1)
        return divergences(logs, last).sum(dim=1, dtype=torch.float64), agreeing

    @torch.no_grad()
    def judge(self, fits: LensFits) -> bool:
        """Judges the maps before training or after an epoch, by their fits on the dev pieces. Returns whether any may still get
        better."""
        if self._kept is None:
            self.before = fits
            self._kept = LensFits(fits.divergence.copy(), fits.agreeing.copy())
            return True
        self.epoch += 1
        better = fits.divergence < self._kept.divergence
        self._kept.divergence[better], self._kept.agreeing[better] = fits.divergence[better], fits.agreeing[better]
        self.best_steps[better] = self.steps
        self._waited = np.where(better, 0, self._waited + 1)
        kept = torch.from_numpy(better).to(self.device)[:, None, None]
        self._rate.mul_(torch.where(kept, 1.0, 0.5))
        torch.where(kept, self.maps, self.best, out=self.best)
        return bool((self._waited < self.patience).any())

    def _logs(self, states: torch.Tensor, maps: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns logarithms of probabilities: of the layers, [layers, pieces, vocabulary], and of the last."""
        with torch.no_grad():
            last = self.head(states[:, -1], True).log_softmax(dim=-1)
        moved = torch.baddbmm(maps[:, -1:], states[:, :-1].transpose(0, 1), maps[:, :-1])
        logits = self.head(moved.flatten(0, 1), False)
        return logits.unflatten(0, moved.shape[:2]).log_softmax(dim=-1), last


def divergences(logs: torch.Tensor, last: torch.Tensor) -> torch.Tensor:
    """Returns KL(last || this), nats, [layers, pieces], from logarithms of probabilities, [layers, pieces, vocabulary] and
    [pieces, vocabulary]."""
    return (last.exp() * (last - logs)).sum(dim=-1)
