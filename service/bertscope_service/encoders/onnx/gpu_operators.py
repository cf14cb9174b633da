"""Refuses graphs that a GPU would not compute."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import onnx
import torch

from bertscope_service.errors import Unsupported

WITHOUT_KERNEL = frozenset(
    {
        "ConvInteger",
        "DynamicQuantizeLinear",
        "DynamicQuantizeLSTM",
        "DynamicQuantizeMatMul",
        "MatMulInteger",
        "MatMulIntegerToFloat",
        "QLinearConv",
        "QLinearMatMul",
    }
)
"""Operators of graphs in 8 bits that ONNX Runtime's CUDA provider does not compute, or not on every card. It would run them on
the CPU, one by one, between copies, and say so in its log only."""


def check_operators(graphs: Iterable[onnx.ModelProto], device: torch.device, source: Path) -> None:
    """Raises Unsupported for graphs with operators that would run on the CPU in place of a GPU."""
    if device.type != "cuda":
        return
    found = sorted({node.op_type for graph in graphs for node in graph.graph.node} & WITHOUT_KERNEL)
    if found:
        message = (
            f"the graphs in {source} compute in 8 bits ({', '.join(found)}), which ONNX Runtime does on the CPU, "
            f"not on {device}; use device cpu, or on the GPU the model in half precision (precision bf16 or fp16)"
        )
        raise Unsupported(message, "PRECISION_UNSUPPORTED", precision="int8", device=device, source=source)
