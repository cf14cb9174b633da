"""What tests on a GPU share: the device, gates of all kinds, and numbers brought back to the CPU."""

import torch
from bertscope_service.encoders.base import Gates

from tests.support.reference import Outputs, Subject

DEVICE = torch.device("cuda:0")
EDITS = {(0, 1): (0.0, 1.0), (1, 0): (0.5, 0.0), (2, 2): (0.0, 0.0), (2, 3): (0.0, 1.0)}


def rows_of(outputs: Outputs) -> list[list[torch.Tensor]]:
    """Everything about each row's real tokens, on the CPU."""
    return [[tensor.float().cpu() for tensor in outputs.row(index)] for index in range(len(outputs.lengths))]


def some_gates(subject: Subject) -> list[Gates | None]:
    """Every other row has gates of all kinds."""
    return [subject.gates(EDITS) if index % 2 else None for index in range(len(subject.sequences))]
