"""Computes what a student's outputs are compared by with its teacher's.

Soft targets after Hinton et al. 2015 (section 2) and DistilBERT (Sanh et al. 2019, section 3); hidden states after DistilBERT
(cosine) and TinyBERT (Jiao et al. 2020, section 3.2: mean squared error); attention after MiniLM (Wang et al. 2020, section
3.1: divergence of maps), here of every layer, as TinyBERT compares all.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from bertscope_service.distillation.settings import DistillationWeights, StateLoss

PARTS = ("soft", "hard", "states", "attention")
FLOOR = 1e-9
"""Attention weights below this count as it: their logarithms would be too large."""


@dataclass(slots=True, eq=False)
class Outputs:
    """A model's outputs for some rows. logits: float32 [predictions, classes]. states: the output of layers, [rows, length,
    hidden] each. maps: their attention maps, [rows, heads, length, length] each. valid: bool [rows, length], None if all tokens
    are real."""

    logits: torch.Tensor
    states: list[torch.Tensor] = field(default_factory=list)
    maps: list[torch.Tensor] = field(default_factory=list)
    valid: torch.Tensor | None = None


@dataclass(frozen=True, slots=True)
class Counts:
    """The predictions, gold answers and tokens of a whole update, over which its parts' losses are means."""

    predictions: int
    answers: int
    tokens: int


def losses(
    weights: DistillationWeights, student: Outputs, teacher: Outputs, gold: torch.Tensor, counts: Counts
) -> dict[str, torch.Tensor]:
    """Returns the part of some rows in each loss of an update, unweighted. gold: int64 [predictions], -1 where unknown."""
    found: dict[str, torch.Tensor] = {}
    if weights.soft:
        found["soft"] = soft_loss(student.logits, teacher.logits, weights.temperature) / counts.predictions
    if weights.hard and counts.answers:
        cross = torch.nn.functional.cross_entropy(student.logits, gold, ignore_index=-1, reduction="sum")
        found["hard"] = cross / counts.answers
    layers = counts.tokens * len(weights.teacher_layers)
    if weights.states:
        pairs = zip(student.states, teacher.states, strict=True)
        found["states"] = sum_of(state_loss(*pair, student.valid, weights.state_loss) for pair in pairs) / layers
    if weights.attention:
        pairs = zip(student.maps, teacher.maps, strict=True)
        found["attention"] = sum_of(map_loss(*pair, student.valid) for pair in pairs) / layers
    return found


def sum_of(values: object) -> torch.Tensor:
    """Returns the sum of scalars, at least one."""
    return torch.stack(list(values)).sum()  # type: ignore[call-overload]


def soft_loss(student: torch.Tensor, teacher: torch.Tensor, temperature: float) -> torch.Tensor:
    """Returns the sum over predictions of T^2 KL(teacher || student) at temperature T, nats."""
    logs = (student / temperature).log_softmax(dim=-1)
    targets = (teacher / temperature).log_softmax(dim=-1)
    return torch.nn.functional.kl_div(logs, targets, reduction="sum", log_target=True) * temperature**2


def state_loss(student: torch.Tensor, teacher: torch.Tensor, valid: torch.Tensor | None, kind: StateLoss) -> torch.Tensor:
    """Returns the sum over real tokens of 1 - cosine, or of the mean squared difference of their states."""
    teacher = teacher.float()
    if kind is StateLoss.COSINE:
        each = 1 - torch.nn.functional.cosine_similarity(student, teacher, dim=-1)
    else:
        each = (student - teacher).square().mean(dim=-1)
    return each.sum() if valid is None else each.masked_fill(~valid, 0).sum()


def map_loss(student: torch.Tensor, teacher: torch.Tensor, valid: torch.Tensor | None) -> torch.Tensor:
    """Returns the sum over real tokens that attend of KL(teacher || student), the mean over heads, nats."""
    target = teacher.float()
    # xlogy is 0 at 0, where the logarithm is not finite.
    each = torch.xlogy(target, target).sum(dim=-1) - (target * student.float().clamp(min=FLOOR).log()).sum(dim=-1)
    each = each.mean(dim=1)
    return each.sum() if valid is None else each.masked_fill(~valid, 0).sum()
