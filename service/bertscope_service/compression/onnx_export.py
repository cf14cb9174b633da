"""Writes a checkpoint as ONNX graphs that ONNX Runtime runs: whole, or in the steps of the encoder seam."""

from __future__ import annotations

import logging
import threading
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir
import torch

from bertscope_service.compression.onnx_files import drop_unused, measure_by_valid, without_gates, write_weights
from bertscope_service.compression.onnx_quantize import quantize_blocks, quantize_int8
from bertscope_service.compression.onnx_trace import NAME, Traced, dynamic_shapes, example
from bertscope_service.compression.steps import Applied, WeightOnly
from bertscope_service.encoders.onnx_parts import cut
from bertscope_service.encoders.onnx_values import (
    ANALYSIS,
    CONSTANT,
    FAST,
    HIDDEN,
    IDS,
    KEEP,
    LABELS,
    LAST,
    LOGITS,
    POSITIONS,
    SEGMENTS,
    UNIFORM,
    VALID,
    WEIGHTS,
    at,
)
from bertscope_service.encoders.torch_architectures import ARCHITECTURES
from bertscope_service.encoders.torch_checkpoints import read_checkpoint
from bertscope_service.encoders.torch_encoder import TorchEncoder

OPSET = 20
"""The first with Gelu as one operator."""

TEXT = (IDS, SEGMENTS, VALID, POSITIONS)
GATES = (KEEP, UNIFORM, CONSTANT)


def export_onnx(
    checkpoint_folder: Path,
    architecture: str,
    target_folder: Path,
    *,
    int8: bool = False,
    weight_only: WeightOnly | None = None,
) -> tuple[tuple[Applied, ...], dict[str, Any]]:
    """Write the graphs and weights of a checkpoint into a folder that is there; all other files are the caller's business.

    Returns what was done, and the details that the manifest must keep for the encoder. Blocks for seconds; runs PyTorch in the
    calling thread. Raises FailedPrecondition for a checkpoint that can't be read.
    """
    checkpoint = read_checkpoint(checkpoint_folder, architecture, torch.float32)
    heads = checkpoint.has_masked_lm_head, checkpoint.labels
    checkpoint.model.set_attn_implementation(NAME)
    kind = ARCHITECTURES[architecture](checkpoint.model)
    encoder = TorchEncoder(kind, architecture, torch.device("cpu"), "fp32", *heads, pruned=checkpoint.pruned)
    details = {
        "opset": OPSET,
        "shape": {**asdict(encoder.shape), "differentiable": False, "prunable": False},
        "head_size": kind.head_size,
        "reads_first": kind.reads_first,
    }
    model = trace(Traced(kind, heads[0], bool(heads[1])), example(kind))
    before = sum(parameter.nbytes for parameter in checkpoint.model.parameters())
    del checkpoint, kind, encoder
    applied = [Applied("onnx", f"exported as ONNX graphs, opset {OPSET}", {"opset": OPSET, "nodes": len(model.graph.node)})]
    if int8:
        model = quantize_int8(model)
    if weight_only is not None:
        model = quantize_blocks(model, weight_only.bits, weight_only.block_size)
    write_weights(model, target_folder)
    write_graphs(model, target_folder)
    after = (target_folder / WEIGHTS).stat().st_size
    numbers = {"bytes_before": float(before), "bytes_after": float(after)}
    if int8:
        applied.append(Applied("int8", "weights as 8-bit integers, activations quantised as they come", numbers))
    if weight_only is not None:
        words = f"weights in {weight_only.bits} bits, a scale for every {weight_only.block_size}"
        applied.append(
            Applied("weight_only", words, {"bits": weight_only.bits, "block_size": weight_only.block_size, **numbers})
        )
    return tuple(applied), details


_TRACING = threading.Lock()
"""torch.onnx keeps state of its own while it traces, which two threads would share."""


def trace(function: Traced, inputs: tuple[torch.Tensor, ...]) -> onnx.ModelProto:
    """The whole graph, every value of `onnx_values` under its name."""
    for talkative in ("onnx_ir", "onnxscript", "torch.onnx"):
        logging.getLogger(talkative).setLevel(logging.ERROR)
    with _TRACING, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            function.eval(),
            inputs,
            dynamo=True,
            dynamic_shapes=dynamic_shapes(),
            input_names=[*TEXT, *GATES],
            output_names=function.names,
            opset_version=OPSET,
            verbose=False,
        )
    if program is None:
        raise RuntimeError("torch.onnx.export returned nothing")
    settle_shapes(program.model)
    proto = onnx_ir.to_proto(program.model)
    for value in [*proto.graph.value_info, *proto.graph.output]:
        del value.metadata_props[:]
    for node in proto.graph.node:
        del node.metadata_props[:]
        node.doc_string = ""
    del proto.metadata_props[:]
    measure_by_valid(proto)
    return proto


def settle_shapes(model: onnx_ir.Model) -> None:
    """Let reshapes copy the leading dimensions that they don't change, so that a part of the graph runs whatever they are."""
    for node in model.graph:
        if node.op_type != "Reshape":
            continue
        source, target = node.inputs[0], node.outputs[0]
        if source is None or source.shape is None or target.shape is None:
            continue
        before, after = list(source.shape), list(target.shape)
        fixed = []
        for place, size in enumerate(after):
            if isinstance(size, int):
                fixed.append(size)
            elif place < len(before) and before[place] == size:
                fixed.append(0)
            else:
                break
        if len(fixed) == len(after):
            name = f"{target.name}.shape"
            shape = onnx_ir.Value(name=name, const_value=onnx_ir.tensor(np.array(fixed, dtype=np.int64), name=name))
            model.graph.register_initializer(shape)
            node.replace_input_with(1, shape)
            node.attributes["allowzero"] = onnx_ir.AttrInt64("allowzero", 0)  # zeros copy


def write_graphs(model: onnx.ModelProto, folder: Path) -> None:
    """Write the fast and the analysis graph of a whole one whose weights are in the folder."""
    outputs = [value.name for value in model.graph.output]
    answers = [name for name in (LAST, LOGITS, LABELS) if name in outputs]
    last_hidden = max((name for name in outputs if name.startswith(f"{HIDDEN}.")), key=lambda name: int(name.partition(".")[2]))
    fast = cut(without_gates(model), TEXT, [at(HIDDEN, 0), *answers, last_hidden])
    analysis = cut(model, [IDS, SEGMENTS, VALID, *GATES], [name for name in outputs if name not in answers])
    for part, name in ((fast, FAST), (analysis, ANALYSIS)):
        drop_unused(part)
        onnx.save(part, str(folder / name))
