"""Trains probes of all layers, tasks and seeds at once: one batched product for each step.

A linear probe is softmax regression on standardised states (each dimension minus its mean, divided by its standard deviation
over the training spans). Training minimises

    mean cross-entropy + l2 / (2 n) * sum of squared weights

over n training spans: scikit-learn's LogisticRegression with C = 1 / l2, whose objective is n times this. A probe of numbers is
least squares: half the mean squared error of standardised numbers stands in place of the cross-entropy, so that it is
scikit-learn's Ridge with alpha = l2. Both are convex, so that the minimum does not depend on how it is reached.

`bertscope_service.probing.lbfgs` trains linear probes, to the minimum or until the dev spans end training. Probes with a hidden
layer and mixes of layers, for which that has several minima, are trained by Adam on minibatches (Kingma and Ba 2015): the
learning rate of a probe is halved after each epoch that does not lower its loss on the dev spans, and the weights with the
lowest such loss are kept (Hewitt and Liang 2019, section 3.3, do the same).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from bertscope_service.probing.adam import adam_step
from bertscope_service.probing.blocks import step_tokens
from bertscope_service.probing.kinds import Size, kind_of
from bertscope_service.probing.losses import CrossEntropy, Loss, SquaredError

MOST = 1_000_000
"""Parameters of a block that Adam trains, unless one probe has more: a step takes some milliseconds on a CPU. The same on all
devices, for the batch follows from it."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How probes are trained; see bertscope.v1.TrainProbeRequest. `to_minimum`: whatever the dev spans say."""

    l2: float = 1.0
    max_epochs: int = 40
    patience: int = 4
    seeds: tuple[int, ...] = (0,)
    to_minimum: bool = False
    hidden_units: int = 0
    mix: bool = False
    regression: bool = False
    """Probes predict numbers, not classes."""

    @property
    def loss(self) -> Loss:
        return SquaredError() if self.regression else CrossEntropy()


@dataclass(frozen=True, slots=True, eq=False)
class Score:
    """The spans that probes classify correctly, int64 (0 of numbers), and their mean loss, float64: both [layers, groups]. The
    loss of classes is the cross-entropy, nats."""

    correct: NDArray[np.int64]
    loss: NDArray[np.float64]


class Probes(ABC):
    """Probes of several layers and groups (a task and a seed) that train together: a block.

    A group's probes share nothing with those of another but the order of the spans. Methods run on the device's thread, outside
    inference mode.
    """

    def __init__(self, size: Size, items: int, settings: Settings, seeds: tuple[int, ...], device: torch.device) -> None:
        """`items`: number of training spans; `seeds` draws the initial weights of each group."""
        self.size, self.settings, self.device = size, settings, device
        self.epoch = 0
        self.best_epoch = np.zeros((size.layers, size.groups), dtype=np.int64)
        self.best_dev = Score(self.best_epoch.copy(), np.full((size.layers, size.groups), math.inf))
        self._decay = settings.l2 / items
        self._kind, self._loss_of = kind_of(size), settings.loss
        self.parameters = self._kind.initial(seeds, device)

    @classmethod
    @abstractmethod
    def most(cls, device: torch.device) -> int:
        """Returns the parameters of a block that does a step in some milliseconds, unless one probe has more."""

    COPIES: ClassVar[int]
    """Tensors as large as the weights."""

    @classmethod
    @abstractmethod
    def steps_of(cls, size: Size, items: int) -> int:
        """Returns the spans in a step."""

    @classmethod
    def bytes(cls, size: Size) -> int:
        """Returns the memory that the training of a block takes beside the states and its steps, approximately."""
        return size.bytes(cls.COPIES)

    @classmethod
    def step_bytes(cls, size: Size, items: int) -> int:
        """Returns the memory that a step of a block takes, approximately."""
        return size.step_bytes(cls.steps_of(size, items))

    def survey(self, states: torch.Tensor) -> None:
        """Sees some training spans before the first step, each once."""
        return

    def prepare(self, layer: int) -> None:
        """Prepares the probes of the layer with this index, when all training spans were seen."""
        return

    @abstractmethod
    def step(self, states: torch.Tensor, labels: torch.Tensor) -> None:
        """Learns from some spans. states: standardised, [spans, layers, hidden]; labels: [spans, groups], classes, int64, or
        standardised numbers, float32."""

    @abstractmethod
    def end_epoch(self, dev: Score) -> bool:
        """Judges the probes after an epoch, with their score on the dev spans, which probes that go to the minimum don't read.
        Returns whether another one follows."""

    @abstractmethod
    def end(self) -> None:
        """Replaces the weights by those that are kept."""

    @property
    @abstractmethod
    def gradient(self) -> NDArray[np.float64] | None:
        """The largest absolute partial derivative at the kept weights, [layers, groups]; None where it was not computed."""

    @torch.no_grad()
    def evaluate(self, states: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the spans classified correctly, int64, and the sums of their losses, float64; both [layers, groups]."""
        scores = self._kind.scores(states, self.parameters)
        losses = self._loss_of.losses(scores, labels).sum(dim=1, dtype=torch.float64)
        if self.settings.regression:
            return torch.zeros_like(losses, dtype=torch.int64), losses
        return self._loss_of.marks(scores, labels).sum(dim=1), losses

    @property
    def surveys(self) -> bool:
        """True if `survey` and `prepare` do anything."""
        return False

    @property
    @abstractmethod
    def end_tokens(self) -> int:
        """The tokens that `end_epoch` counts as; see blocks.step_tokens."""

    def step_tokens(self, batch: int) -> int:
        """Returns the tokens that a step of `batch` spans counts as."""
        return step_tokens(3 * batch * self.size.products, self.COPIES * self.size.values)

    @torch.no_grad()
    def hits(self, states: torch.Tensor, labels: torch.Tensor, groups: int) -> torch.Tensor:
        """Returns how many of the first groups' probes classify each span correctly, int64 [layers, spans]; or the sum of their
        squared errors of standardised numbers, float64."""
        scores = self._kind.scores(states, self.parameters)[:, :, :groups]
        return self._loss_of.marks(scores, labels[:, :groups]).sum(dim=2)

    @torch.no_grad()
    def answers(self, states: torch.Tensor, layer: int, group: int) -> torch.Tensor:
        """Returns the classes that one probe answers by states of its layer, int64 [spans]; not for mixes of layers."""
        parameters = [values[layer : layer + 1, :, group : group + 1] for values in self.parameters]
        answers: torch.Tensor = self._kind.scores(states, parameters)[0, :, 0].argmax(dim=-1)
        return answers


class AdamProbes(Probes):
    """Probes that are trained by Adam until the loss on the dev spans no longer falls."""

    COPIES = 7
    """Tensors as large as the weights: they, their gradient, Adam's two averages, the best so far, and two in between."""

    def __init__(self, size: Size, items: int, settings: Settings, seeds: tuple[int, ...], device: torch.device) -> None:
        super().__init__(size, items, settings, seeds, device)
        # The share of the first learning rate.
        self._rate = torch.ones((size.layers, size.groups), dtype=torch.float32, device=device)
        self._waited = np.zeros((size.layers, size.groups), dtype=np.int64)
        self._averages = [(torch.zeros_like(values), torch.zeros_like(values)) for values in self.parameters]
        self._best = [values.clone() for values in self.parameters]
        self._steps = 0

    @classmethod
    def most(cls, device: torch.device) -> int:
        return MOST

    @classmethod
    def steps_of(cls, size: Size, items: int) -> int:
        return size.batch(items)

    def step(self, states: torch.Tensor, labels: torch.Tensor) -> None:
        self._steps += 1
        parameters = [values.requires_grad_() for values in self.parameters]
        with torch.enable_grad():
            loss = self._loss_of.losses(self._kind.scores(states, parameters), labels).sum() / len(states)
            for values, penalised in zip(parameters, self._kind.penalised, strict=True):
                if penalised:
                    loss = loss + 0.5 * self._decay * values.square().sum()
            gradients = torch.autograd.grad(loss, parameters)
        with torch.no_grad():
            updates = zip(parameters, gradients, self._averages, self._kind.rates, strict=True)
            for values, gradient, averages, rate in updates:
                adam_step(values, gradient, averages, self._rate[:, None, :, None], self._steps, scale=rate)

    @torch.no_grad()
    def end_epoch(self, dev: Score) -> bool:
        """Keeps the weights that do better on the dev spans than before. Returns whether any probe may still get better."""
        self.epoch += 1
        better = dev.loss < self.best_dev.loss
        self.best_epoch[better] = self.epoch
        self.best_dev.loss[better], self.best_dev.correct[better] = dev.loss[better], dev.correct[better]
        self._waited[better] = 0
        self._waited[~better] += 1
        kept = torch.from_numpy(better).to(self.device)
        self._rate.mul_(torch.where(kept, 1.0, 0.5))
        for best, values in zip(self._best, self.parameters, strict=True):
            torch.where(kept[:, None, :, None], values, best, out=best)
        return self.epoch < self.settings.max_epochs and bool((self._waited < self.settings.patience).any())

    @property
    def end_tokens(self) -> int:
        return step_tokens(0, 2 * self.size.values)

    def end(self) -> None:
        self.parameters = self._best

    @property
    def gradient(self) -> None:
        return None
