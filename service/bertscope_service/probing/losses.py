"""Losses that probes minimise: the cross-entropy of classes, and half the squared error of numbers.

Scores are float32 [layers, spans, groups, outputs]. Targets are [spans, groups]: int64 classes, or float32 standardised
numbers, for which a probe has one output.
"""

from __future__ import annotations

from typing import Protocol

import torch


class Loss(Protocol):
    """A loss of a span."""

    def losses(self, scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Returns the losses, [layers, spans, groups]."""

    def with_gradient(self, scores: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the sums of losses over spans, float64 [layers, groups], and the derivatives of losses by scores, in place of
        the scores."""

    def marks(self, scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Returns what the scores of a text sum up, [layers, spans, groups]: 1 for a span classified correctly, int64, or its
        squared error, float64."""


class CrossEntropy:
    """The cross-entropy of classes, nats."""

    def losses(self, scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return scores.logsumexp(dim=-1) - scores.gather(3, _gold(scores, targets))[..., 0]

    def with_gradient(self, scores: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        logs, gold = scores.log_softmax(dim=-1), _gold(scores, targets)
        total = -logs.gather(3, gold).sum(dim=(1, 3), dtype=torch.float64)
        away = logs.exp_()
        return total, away.scatter_add_(3, gold, torch.full_like(away[..., :1], -1.0))

    def marks(self, scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return (scores.argmax(dim=-1) == targets).long()


class SquaredError:
    """Half the squared error of standardised numbers."""

    def losses(self, scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return 0.5 * (scores[..., 0] - targets).double().square()

    def with_gradient(self, scores: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        away = scores.sub_(targets[None, :, :, None])
        return 0.5 * away.double().square().sum(dim=(1, 3)), away

    def marks(self, scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return 2 * self.losses(scores, targets)


def _gold(scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Returns the index of each span's class, as `gather` takes it."""
    return targets[None, :, :, None].expand(len(scores), -1, -1, 1)
