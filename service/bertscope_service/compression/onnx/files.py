"""Graphs on disk: several of them, one file of weights.

folder/fast.onnx        ids, segments, valid, positions -> last, logits or labels
folder/analysis.onnx    the same and gates -> hidden states, attention maps, contexts of every layer
folder/model.onnx       what other programs expect: `standard`
folder/weights.bin      the weights of all
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

import onnx

from bertscope_service.encoders.onnx.values import GATED, OWN, VALID, WEIGHTS

EMBEDDED_BYTES = 1024
"""Smaller tensors stay in the graph: shapes and scales that ONNX Runtime reads before it opens files."""

ALIGNMENT = 4096
"""Tensors begin at multiples of this, so that they can be mapped into memory."""


def without_gates(model: onnx.ModelProto) -> onnx.ModelProto:
    """Returns the same graph with every context unchanged."""
    plain = onnx.ModelProto()
    plain.CopyFrom(model)
    for node in plain.graph.node:
        for place, name in enumerate(node.input):
            kind, _, layer = name.partition(".")
            if kind == GATED and layer.isdigit():
                node.input[place] = f"{OWN}.{layer}"
    return plain


def write_weights(model: onnx.ModelProto, folder: Path) -> None:
    """Moves a model's larger tensors into the folder's weights file, equal ones once; the model refers to them there."""
    places: dict[tuple[str, int], int] = {}
    with (folder / WEIGHTS).open("wb") as file:
        for tensor in model.graph.initializer:
            if not tensor.HasField("raw_data"):
                tensor.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor), tensor.name))
            if len(tensor.raw_data) < EMBEDDED_BYTES:
                continue
            key = hashlib.sha256(tensor.raw_data).hexdigest(), len(tensor.raw_data)
            if key not in places:
                file.write(b"\0" * (-file.tell() % ALIGNMENT))
                places[key] = file.tell()
                file.write(tensor.raw_data)
            _refer(tensor, {"location": WEIGHTS, "offset": str(places[key]), "length": str(key[1])})
        file.flush()
        os.fsync(file.fileno())


def _refer(tensor: onnx.TensorProto, where: Mapping[str, str]) -> None:
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in where.items():
        entry = tensor.external_data.add()
        entry.key, entry.value = key, value


def drop_unused(model: onnx.ModelProto) -> None:
    """Removes tensors that no node reads and no output is."""
    used = {name for node in model.graph.node for name in node.input} | {value.name for value in model.graph.output}
    unused = [tensor for tensor in model.graph.initializer if tensor.name not in used]
    for tensor in unused:
        model.graph.initializer.remove(tensor)


def measure_by_valid(model: onnx.ModelProto) -> None:
    """Reads sizes from `valid`, which every part of the graph has, instead of other inputs with the same first dimensions."""
    sized = {"ids", "segments"}
    first = {"keep", "uniform", "constant", "positions"}
    for node in model.graph.node:
        if node.op_type != "Shape":
            continue
        begin_end = {attribute.name: attribute.i for attribute in node.attribute}
        rows_only = begin_end.get("start", 0) == 0 and begin_end.get("end") == 1
        if node.input[0] in sized or (rows_only and node.input[0] in first):
            node.input[0] = VALID
