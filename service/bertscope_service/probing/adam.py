"""Adam (Kingma and Ba 2015) for probes and maps that train side by side, each at a learning rate of its own."""

from __future__ import annotations

import torch

BETAS, EPSILON = (0.9, 0.999), 1e-8


def adam_step(
    values: torch.Tensor,
    gradient: torch.Tensor,
    averages: tuple[torch.Tensor, torch.Tensor],
    rates: torch.Tensor,
    step: int,
    *,
    scale: float = 1.0,
) -> None:
    """Takes a step, its number counted from 1. averages: of gradients and of their squares, 0 before the first step. rates:
    times `scale`, the learning rates of values, in a shape that spreads over theirs."""
    mean, square = averages
    first, second = (1 - beta**step for beta in BETAS)
    mean.lerp_(gradient, 1 - BETAS[0])
    square.mul_(BETAS[1]).addcmul_(gradient, gradient, value=1 - BETAS[1])
    values.sub_(scale * (rates / first) * mean / (square / second).sqrt_().add_(EPSILON))
