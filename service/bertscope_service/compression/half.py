"""16-bit floating point."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from bertscope_service.checkpoints.steps import Applied, Half
from bertscope_service.compression.working_copy import WorkingCopy
from bertscope_service.encoders.torch.encoder import DTYPES
from bertscope_service.errors import FailedPrecondition

EXPONENT_BITS = {"fp16": 5, "bf16": 8}
"""Exponent bits, which distinguish the two formats of 16 bits in a manifest."""


def to_half(copy: WorkingCopy, step: Half) -> Applied:
    """Converts all weights to 16 bits. Raises FailedPrecondition for weights that fp16 can't hold."""
    before = str(copy.model.dtype).removeprefix("torch.")
    copy.model.to(DTYPES[step.precision])
    if not all(torch.isfinite(parameter).all() for parameter in copy.model.parameters()):
        message = f"some weights are too large for {step.precision}; use bf16, or leave the step out"
        raise FailedPrecondition(message, "WEIGHTS_TOO_LARGE")
    after = str(copy.model.dtype).removeprefix("torch.")
    return Applied(
        step.name, f"weights in {after}, before in {before}", {"bits": 16, "exponent_bits": EXPONENT_BITS[step.precision]}
    )


def chosen_precision(steps: Iterable[Applied]) -> str:
    """Returns the number format after these steps, "fp16" or "bf16"; "fp32" if none of them chose one."""
    exponents = [step.numbers.get("exponent_bits") for step in steps if step.step == Half.name]
    return next((name for name, bits in EXPONENT_BITS.items() if bits in exponents), "fp32")
