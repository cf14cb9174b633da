"""Exports checkpoints as ONNX graphs in a process of its own.

While torch.onnx traces, it replaces methods of torch.nn.Module for all threads of a process.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from bertscope_service.checkpoints.steps import Applied, WeightOnly
from bertscope_service.encoders.onnx.helper_process import helper


def export_onnx(
    checkpoint_folder: Path,
    architecture: str,
    target_folder: Path,
    *,
    int8: bool = False,
    weight_only: WeightOnly | None = None,
    check: Callable[[], None] = lambda: None,
) -> tuple[tuple[Applied, ...], dict[str, Any]]:
    """Writes the graphs and weights of a checkpoint into an existing folder; the caller writes all other files.

    Returns the applied steps, and the details for the manifest. Blocks for seconds; `check` is called several times a second
    and may raise, to abandon it. Raises FailedPrecondition for a checkpoint that can't be read, or if the export crashed or
    ran out of memory.
    """
    request = {
        "checkpoint": str(checkpoint_folder.absolute()),
        "architecture": architecture,
        "target": str(target_folder.absolute()),
        "int8": int8,
        "weight_only": None if weight_only is None else [weight_only.bits, weight_only.block_size],
    }
    applied, details = helper.call("export", request, check=check)
    return tuple(Applied(*step) for step in applied), details
