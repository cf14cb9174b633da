"""Writes a checkpoint as ONNX graphs for ONNX Runtime: whole, or in the steps of the encoder interface."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir
import torch

from bertscope_service.checkpoints.steps import Applied, WeightOnly, grown
from bertscope_service.compression.onnx.files import drop_unused, measure_by_valid, without_gates, write_weights
from bertscope_service.compression.onnx.quantize import quantize_blocks, quantize_int8
from bertscope_service.compression.onnx.standard import STANDARD, standard
from bertscope_service.compression.onnx.trace import Traced, dynamic_shapes, example, register_traced_attention
from bertscope_service.encoders.onnx.details import write_details
from bertscope_service.encoders.onnx.parts import cut
from bertscope_service.encoders.onnx.values import (
    ANALYSIS,
    CONSTANT,
    FAST,
    HEADS,
    HIDDEN,
    IDS,
    KEEP,
    POSITIONS,
    SEGMENTS,
    UNIFORM,
    VALID,
    WEIGHTS,
    at,
)
from bertscope_service.encoders.torch.architectures import ARCHITECTURES
from bertscope_service.encoders.torch.checkpoints import read_checkpoint
from bertscope_service.encoders.torch.encoder import TorchEncoder

OPSET = 20
"""The first opset with Gelu as one operator."""

TEXT = (IDS, SEGMENTS, VALID, POSITIONS)
GATES = (KEEP, UNIFORM, CONSTANT)


def export_task(request: Mapping[str, Any]) -> list[Any]:
    """Runs a request of `onnx_exporter.export_onnx`, in a process of its own."""
    weight_only = None if request["weight_only"] is None else WeightOnly(*request["weight_only"])
    folders = Path(request["checkpoint"]), Path(request["target"])
    applied, details = write_export(folders[0], request["architecture"], folders[1], request["int8"], weight_only)
    return [[astuple(step) for step in applied], details]


def write_export(
    checkpoint_folder: Path, architecture: str, target_folder: Path, int8: bool, weight_only: WeightOnly | None
) -> tuple[tuple[Applied, ...], dict[str, Any]]:
    """Writes the graphs and weights of a checkpoint. Returns the applied steps, and details for the manifest.

    Changes the state of the whole process. Raises FailedPrecondition for a checkpoint that can't be read.
    """
    checkpoint = read_checkpoint(checkpoint_folder, architecture, torch.float32)
    checkpoint.model.set_attn_implementation(register_traced_attention())
    kind = ARCHITECTURES[architecture](checkpoint.model)
    encoder = TorchEncoder(
        kind,
        architecture,
        torch.device("cpu"),
        "fp32",
        checkpoint.capabilities,
        checkpoint.labels,
        pruned=checkpoint.pruned,
    )
    shape = encoder.shape
    details = {
        "opset": OPSET,
        **write_details(shape, replace(encoder.capabilities, differentiable=False, prunable=False)),
        "head_size": kind.head_size,
        "reads_first": kind.reads_first,
    }
    model = trace(Traced(kind, encoder.capabilities), example(kind))
    before = sum(path.stat().st_size for path in checkpoint_folder.glob("*.safetensors"))
    del checkpoint, kind, encoder
    nodes = len(model.graph.node)
    if int8:
        model = quantize_int8(model)
    if weight_only is not None:
        model = quantize_blocks(model, weight_only.bits, weight_only.block_size)
    write_weights(model, target_folder)
    write_graphs(model, target_folder, shape.hidden_size, reads_segments=shape.segments > 1)
    after = (target_folder / WEIGHTS).stat().st_size
    numbers = {"bytes_before": float(before), "bytes_after": float(after)}
    words, more = f"exported as ONNX graphs, opset {OPSET}", grown(before, after)
    plain = not int8 and weight_only is None
    sizes = numbers if plain else {}
    applied = [Applied("onnx", words + more * plain, {"opset": OPSET, "nodes": nodes, **sizes})]
    if int8:
        words = "weights as 8-bit integers, activations quantised as they come, each token by itself"
        applied.append(Applied("int8", words + more, numbers))
    if weight_only is not None:
        words = f"weights in {weight_only.bits} bits, a scale for every {weight_only.block_size}"
        applied.append(
            Applied("weight_only", words + more, {"bits": weight_only.bits, "block_size": weight_only.block_size, **numbers})
        )
    return tuple(applied), details


def trace(function: Traced, inputs: tuple[torch.Tensor, ...]) -> onnx.ModelProto:
    """Traces the whole graph, every value of `onnx_values` under its name."""
    for verbose in ("onnx_ir", "onnxscript", "torch.onnx"):
        logging.getLogger(verbose).setLevel(logging.ERROR)
    with warnings.catch_warnings():
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
    """Lets reshapes copy the leading dimensions that they don't change, so that a part of the graph runs for any of them."""
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


def write_graphs(model: onnx.ModelProto, folder: Path, hidden_size: int, *, reads_segments: bool) -> None:
    """Writes the fast and the analysis graph of a whole one whose weights are in the folder, and the one for other programs."""
    outputs = [value.name for value in model.graph.output]
    heads = [name for name in HEADS if name in outputs]
    last_hidden = max((name for name in outputs if name.startswith(f"{HIDDEN}.")), key=lambda name: int(name.partition(".")[2]))
    fast = cut(without_gates(model), TEXT, [at(HIDDEN, 0), *heads, last_hidden])
    analysis = cut(model, [IDS, SEGMENTS, VALID, *GATES], [name for name in outputs if name not in heads])
    others = standard(fast, hidden_size, reads_segments=reads_segments)
    for part, name in ((fast, FAST), (analysis, ANALYSIS), (others, STANDARD)):
        drop_unused(part)
        onnx.save(part, str(folder / name))
