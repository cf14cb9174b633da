"""Gives a model random weights: a control of the same shape that has learned nothing."""

from __future__ import annotations

import torch

from bertscope_service.checkpoints.steps import Applied, Untrain
from bertscope_service.compression.working_copy import WorkingCopy

SPREAD = 0.02
"""Standard deviation of the weights of a model whose config names none: BERT's."""


@torch.no_grad()
def untrain(copy: WorkingCopy, step: Untrain) -> Applied:
    """Draws every matrix from a normal distribution; vectors named "weight", which scale, become 1, and other vectors 0, as
    before BERT's training (Devlin et al. 2019). The generator is its own, so that nothing else is drawn otherwise."""
    spread = float(getattr(copy.config, "initializer_range", None) or SPREAD)
    generator = torch.Generator().manual_seed(step.seed)
    for name, values in copy.model.named_parameters():
        if values.ndim > 1:
            values.normal_(0.0, spread, generator=generator)
        else:
            values.fill_(1.0 if name.endswith("weight") else 0.0)
    words = f"random weights, standard deviation {spread:g}, seed {step.seed}"
    return Applied(step.name, words, {"standard_deviation": spread, "seed": step.seed})
