"""Trains linear probes by L-BFGS on all training spans (Nocedal and Wright 2006, algorithms 7.4 and 7.5), all layers and groups
side by side: to the minimum of what training minimises, or until the loss on the dev spans no longer falls.

Every pass over the spans evaluates one point of each probe. A step that does not lower what is minimised enough (Armijo's
condition) is shortened, so a pass is a step or a trial of one. The first matrix of the two loops is the inverse of a multiple
of the states' second moments: up to the factor the bound of the curvature by Boehning (1992, section 2). Passes are a third of
those with a multiple of the identity, and all groups of a layer share the matrix.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from bertscope_service.encoders.size_limits import size_limits
from bertscope_service.probing.blocks import step_tokens
from bertscope_service.probing.kinds import Size
from bertscope_service.probing.training import Probes, Score, Settings

GRADIENT = 1e-5
"""A probe is at its minimum where no partial derivative is larger. scikit-learn's LogisticRegression ends at 1e-4, from where
a few words in a thousand still change their class on the way to the minimum."""
STEPS_KEPT = 10
"""Earlier steps that the direction of the next is computed from."""
DECREASE = 1e-4
"""The share of the decrease that the slope promises which a step has to reach (Armijo)."""
ROUNDING = 1e-7
"""Differences of that share of the loss are rounding."""
SHORTEST = 1e-12
"""A step that is not shorter still: the probe stays where it is."""
MAX_HIDDEN = 1024
"""The longest states whose second moments are inverted; the first matrix is a multiple of the identity for longer ones."""
MAX_BATCH = 1024
"""Spans in a step."""


@dataclass(frozen=True, slots=True)
class Curvature:
    """The first guess of the curvature: `share` of the second moments plus `damping` times the identity."""

    share: float
    damping: float


TO_MINIMUM = Curvature(0.1, 1e-4)
"""Few passes to the minimum."""
BY_DEV = Curvature(0.2, 0.1)
"""Directions in which states hardly vary are learned last: the dev spans end training before probes use them to overfit."""
SQUARES = {True: Curvature(1.0, 1e-4), False: Curvature(1.0, 0.5)}
"""Guesses for numbers, to the minimum or not: the curvature of squared errors is the second moments and the penalty, so the
first step to the minimum goes all the way but for rounding."""


class LbfgsProbes(Probes):
    """Linear probes, each trained until no partial derivative is larger than GRADIENT, or by the dev spans: until its loss on
    them has not fallen for `patience` passes. The weights with the lowest are kept then."""

    COPIES = 2 * STEPS_KEPT + 10
    """Tensors as large as the weights: the point, its gradient, the direction, the trial and its gradient, the best so
    far, the steps kept and the differences of gradients along them, and four in between."""

    def __init__(self, size: Size, items: int, settings: Settings, seeds: tuple[int, ...], device: torch.device) -> None:
        super().__init__(size, items, settings, seeds, device)
        self._items = items
        # Of each probe, [layers, groups].
        self._loss = torch.full((size.layers, size.groups), torch.inf, dtype=torch.float64, device=device)
        self._length = torch.zeros_like(self._loss)
        self._moves = torch.ones_like(self._loss, dtype=torch.bool)
        self._largest = self._loss.clone()
        # Weights and biases together, [layers, hidden + 1, groups, classes].
        self._point = torch.cat(self.parameters, dim=1)
        self._gradient = torch.zeros_like(self._point)
        self._direction = torch.zeros_like(self._point)
        self._steps: deque[tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = deque(maxlen=STEPS_KEPT)
        self._summed = torch.zeros_like(self._point)
        self._total = torch.zeros_like(self._loss)
        self._best = self._point.clone()
        self._waited = self.best_epoch.copy()
        # The layers and the groups between the first and the last that still move.
        self._going = slice(0, size.layers), slice(0, size.groups)
        # Second moments of the states; then the first matrix of the two loops, [layers, hidden, hidden].
        of_classes = TO_MINIMUM if settings.to_minimum else BY_DEV
        self._curvature = SQUARES[settings.to_minimum] if settings.regression else of_classes
        side = math.isqrt(_square(size))
        self._inverse = torch.zeros((size.layers, side, side), dtype=torch.float32, device=device)

    @classmethod
    def most(cls, device: torch.device) -> int:
        return size_limits(device).minimised_values

    @classmethod
    def steps_of(cls, size: Size, items: int) -> int:
        return size.batch(items, 1, MAX_BATCH, size.limits.step_products)

    @classmethod
    def bytes(cls, size: Size) -> int:
        return super().bytes(size) + 4 * size.layers * _square(size)

    @classmethod
    def step_bytes(cls, size: Size, items: int) -> int:
        return max(super().step_bytes(size, items), 4 * 8 * _square(size))

    def survey(self, states: torch.Tensor) -> None:
        self._inverse.baddbmm_(states.permute(1, 2, 0), states.transpose(0, 1), alpha=1 / self._items)

    def prepare(self, layer: int) -> None:
        """Inverts the first guess of a layer's curvature."""
        guess = self._inverse[layer].double().mul_(self._curvature.share)
        guess.diagonal().add_(self._decay + self._curvature.damping)
        self._inverse[layer] = torch.cholesky_inverse(torch.linalg.cholesky(guess))

    def step(self, states: torch.Tensor, labels: torch.Tensor) -> None:
        """Adds the losses and the gradient of some spans at the trial point, of the probes that still move."""
        layers, groups = self._going
        states, labels = states[:, layers], labels[:, groups]
        scores = self._kind.scores(states, [values[layers, :, groups] for values in self.parameters])
        total, away = self._loss_of.with_gradient(scores, labels)
        self._total[layers, groups] += total
        self._summed[layers, :-1, groups] += (states.permute(1, 2, 0) @ away.flatten(2)).unflatten(2, away.shape[2:])
        self._summed[layers, -1, groups] += away.sum(dim=1)

    def end_epoch(self, dev: Score) -> bool:
        """Takes the trial point or shortens the step, and goes to the next trial point."""
        self.epoch += 1
        weights = self.parameters[0]
        total = self._total / self._items + 0.5 * self._decay * weights.square().sum(dim=(1, 3), dtype=torch.float64)
        self._summed.div_(self._items)[:, :-1] += self._decay * weights
        slope = _dot(self._gradient, self._direction)
        slack = ROUNDING * total.abs()
        taken = self._moves & ((total <= self._loss + DECREASE * self._length * slope + slack) | self._loss.isinf())
        self._take(taken, total)
        if self.settings.to_minimum:
            self.best_epoch[taken.cpu().numpy()] = self.epoch
        else:
            self._judge(taken.cpu().numpy(), dev)
        # The minimum of the parabola through both losses and the slope, within a tenth and a half of the step.
        parabola = -slope * self._length / (2 * (total - self._loss - slope * self._length))
        shortened = self._length * parabola.nan_to_num(nan=0.1).clamp(0.1, 0.5)
        self._moves &= (self._largest > GRADIENT) & (taken | (shortened > SHORTEST))
        self._direction = torch.where(_spread(taken), self._next_direction(), self._direction)
        first = 1 / self._gradient.abs().sum(dim=(1, 3), dtype=torch.float64).clamp_(min=1)
        whole = torch.ones_like(first) if self._steps or self._inverse.numel() else first
        self._length = torch.where(taken, whole, shortened) * self._moves
        self._aim(self._point + (_spread(self._length) * self._direction).float())
        self._summed.zero_()
        self._total.zero_()
        moves: NDArray[np.bool_] = self._moves.cpu().numpy()
        self._going = _range(moves, axis=1), _range(moves, axis=0)
        return self.epoch < self.settings.max_epochs and bool(moves.any())

    @property
    def surveys(self) -> bool:
        return bool(self._inverse.numel())

    @property
    def end_tokens(self) -> int:
        size = self.size
        squares = size.layers * size.groups * size.classes * size.hidden**2 * self.surveys
        return step_tokens(squares, 10 * STEPS_KEPT * size.values)

    def end(self) -> None:
        self._aim(self._point if self.settings.to_minimum else self._best)

    @property
    def gradient(self) -> NDArray[np.float64] | None:
        return np.asarray(self._largest.cpu().numpy()) if self.settings.to_minimum else None

    def _take(self, taken: torch.Tensor, total: torch.Tensor) -> None:
        """Moves some probes, [layers, groups], to their trial points."""
        step = torch.where(_spread(taken), torch.cat(self.parameters, dim=1) - self._point, 0)
        change = torch.where(_spread(taken), self._summed - self._gradient, 0)
        curvature, length = _dot(step, change), _dot(change, change)
        bends = curvature > 1e-10 * length
        if bool(bends.any()):
            self._steps.append((step, change, torch.where(bends, 1 / curvature, 0)))
        self._point += step
        self._gradient += change
        self._loss = torch.where(taken, total, self._loss)
        self._largest = self._gradient.abs().amax(dim=(1, 3)).double()

    def _judge(self, taken: NDArray[np.bool_], dev: Score) -> None:
        """Keeps what does better on the dev spans, and ends probes that have waited for that."""
        better = taken & (dev.loss < self.best_dev.loss)
        self.best_epoch[better] = self.epoch
        self.best_dev.loss[better], self.best_dev.correct[better] = dev.loss[better], dev.correct[better]
        self._waited = np.where(better, 0, self._waited + 1)
        kept, waits = (torch.from_numpy(one).to(self.device) for one in (better, self._waited < self.settings.patience))
        torch.where(_spread(kept), self._point, self._best, out=self._best)
        self._moves &= waits

    def _next_direction(self) -> torch.Tensor:
        """Returns the direction of the next step: the two loops of algorithm 7.4."""
        found, shares = self._gradient.clone(), []
        for step, change, inverse in reversed(self._steps):
            share = inverse * _dot(step, found)
            found -= (_spread(share) * change).float()
            shares.append(share)
        if self._inverse.numel():
            found[:, :-1] = (self._inverse @ found[:, :-1].flatten(2)).unflatten(2, found.shape[2:])
            found[:, -1] /= self._curvature.share + self._curvature.damping
        else:
            found *= _spread(self._scale()).float()
        for (step, change, inverse), share in zip(self._steps, reversed(shares), strict=True):
            found += (_spread(share - inverse * _dot(change, found)) * step).float()
        return -found

    def _scale(self) -> torch.Tensor:
        """Returns the curvature of each probe's last step: s y / y y."""
        found = torch.ones_like(self._loss)
        for _, change, inverse in self._steps:
            found = torch.where(inverse > 0, 1 / (inverse * _dot(change, change)), found)
        return found

    def _aim(self, point: torch.Tensor) -> None:
        self.parameters = list(point.split((self.size.hidden, 1), dim=1))


def _square(size: Size) -> int:
    """Returns the numbers in the second moments of a layer, 0 if they are not used."""
    return size.hidden**2 if size.hidden <= MAX_HIDDEN else 0


def _dot(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Returns the products of two points of each probe, float64 [layers, groups]."""
    return (left * right).sum(dim=(1, 3), dtype=torch.float64)


def _spread(values: torch.Tensor) -> torch.Tensor:
    """Returns values of probes, [layers, groups], beside their parameters."""
    return values[:, None, :, None]


def _range(moves: NDArray[np.bool_], axis: int) -> slice:
    """Returns the rows (columns) from the first to the last that have a True; `axis` is the other one."""
    (places,) = np.nonzero(moves.any(axis=axis))
    return slice(int(places[0]), int(places[-1]) + 1) if len(places) else slice(0, 0)
