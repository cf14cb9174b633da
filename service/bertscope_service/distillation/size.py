"""Estimates how much a distillation multiplies, and how much memory it takes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bertscope_service.distillation.rows import Drawn
from bertscope_service.distillation.training import COPIES
from bertscope_service.encoders.size_limits import size_limits
from bertscope_service.encoders.torch.encoder import TorchEncoder

PASSES = 3
"""The forward pass of a student, and its backward pass, which takes twice as long."""
FLOATS_PER_UNIT = 60
"""Numbers that a layer keeps for its backward pass, for each unit of a token's state: its linear layers' inputs and more."""


@dataclass(frozen=True, slots=True)
class DistillationSize:
    """Multiplications of a token in all layers, and of a prediction, of both models; the size of a part of an update."""

    token: int
    prediction: int
    limit: int

    @classmethod
    def of(cls, teacher: TorchEncoder, student: TorchEncoder) -> DistillationSize:
        shape = teacher.shape
        choices = shape.vocabulary_size if teacher.capabilities.masked_lm else len(shape.head_labels)
        scores = shape.hidden_size * choices
        layers = [sum(layer_values(part)) for part in (teacher, student)]
        limit = size_limits(teacher.device).distilled_products
        return cls(layers[0] + PASSES * layers[1], (1 + PASSES) * scores, limit)

    def products(self, row: Drawn) -> int:
        """Returns the multiplications of a text in an update, but for those of its attention maps."""
        return self.token * len(row) + self.prediction * len(row.places)


def layer_values(encoder: TorchEncoder) -> Iterator[int]:
    """Yields the number of parameters of each layer: a token's multiplications there."""
    for layer in encoder.architecture.layers:
        yield sum(one.numel() for one in layer.parameters())


def training_bytes(student: TorchEncoder, longest: int, batch: int) -> int:
    """Returns the memory that training takes beside the teacher, bytes. longest: tokens of the longest text; batch: those of an
    update."""
    shape = student.shape
    tokens = max(longest, min(batch, size_limits(student.device).distilled_products // max(1, shape.parameters)))
    activations = tokens * shape.layers * (FLOATS_PER_UNIT * shape.hidden_size + 4 * shape.heads * longest)
    return 4 * (COPIES * shape.parameters + activations + tokens * shape.vocabulary_size)
