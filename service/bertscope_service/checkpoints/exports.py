"""Checks the manifest of exported graphs against the graphs, so that no number of the manifest alone causes an allocation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx

from bertscope_service.checkpoints.bounds import BOUNDS, HEADS, LAYERS, MAX_LABELS, POSITIONS, Bound
from bertscope_service.checkpoints.config import MAX_LABEL_BYTES
from bertscope_service.encoders.onnx.details import read_capabilities
from bertscope_service.encoders.onnx.parts import read_graph, tensors_of, weights_of
from bertscope_service.encoders.onnx.values import (
    ANALYSIS,
    ANSWERS,
    FAST,
    HIDDEN,
    LABELS,
    LAST,
    LOGITS,
    NEXT_SENTENCE,
    TOKEN_LABELS,
    at,
)
from bertscope_service.encoders.refusals import refused, unreadable
from bertscope_service.encoders.weight_headers import Stored

SIZES = {
    "layers": LAYERS,
    "heads": HEADS,
    "hidden_size": BOUNDS["hidden_size"],
    "vocabulary_size": BOUNDS["vocab_size"],
    "max_tokens": POSITIONS,
    "parameters": Bound(0, 2**40),
    "segments": Bound(1, 1024),
}
"""Numbers of the shape in a manifest."""

FORMATS: Mapping[int, tuple[str, int]] = {
    onnx.TensorProto.FLOAT: ("F32", 4),
    onnx.TensorProto.FLOAT16: ("F16", 2),
    onnx.TensorProto.BFLOAT16: ("BF16", 2),
    onnx.TensorProto.DOUBLE: ("F64", 8),
}
"""Floating-point formats of tensors in graphs: their names in safetensors files, and bytes."""


def check_export(path: Path, details: Mapping[str, Any]) -> list[Stored]:
    """Returns the floating-point weights of an export in its weights file. `path` is the manifest's, `details` are its
    details.

    Raises FailedPrecondition for impossible numbers, or numbers that contradict the graphs.
    """
    shape = details.get("shape")
    if not isinstance(shape, Mapping):
        raise refused(path, "details.shape", shape, "it must be an object; export the model again")
    for key, bound in SIZES.items():
        # Older manifests have no segments; their default is 1.
        if not bound.holds(shape.get(key, 1 if key == "segments" else None)):
            raise refused(path, f"details.shape.{key}", shape.get(key), f"allowed are {bound}")
    if not HEADS.holds(shape["heads"]) or not BOUNDS["hidden_size"].holds(details.get("head_size")):
        raise refused(path, "details.head_size", details.get("head_size"), f"allowed are {BOUNDS['hidden_size']}")
    if not isinstance(details.get("capabilities", {}), Mapping):
        raise refused(path, "details.capabilities", details["capabilities"], "it must be an object; export the model again")
    _check_labels(path, "labels", shape.get("labels"))
    _check_labels(path, "head_labels", shape.get("head_labels", []))
    _check_pruned(path, shape)
    graphs = {name: read_graph(path.parent, name) for name in (FAST, ANALYSIS)}
    _check_graphs(path, details, graphs)
    return [stored for name, graph in graphs.items() for stored in _stored(path.parent / name, graph)]


def _check_labels(path: Path, key: str, labels: object) -> None:
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise refused(path, f"details.shape.{key}", labels, "it must be a list of names")
    if len(labels) > MAX_LABELS or sum(len(label.encode("utf-8", "replace")) for label in labels) > MAX_LABEL_BYTES:
        raise refused(path, f"the number of details.shape.{key}", len(labels), f"allowed are up to {MAX_LABELS}")


def _check_pruned(path: Path, shape: Mapping[str, Any]) -> None:
    """Checks that removed heads are heads of the model."""
    pruned = shape.get("pruned")
    if not isinstance(pruned, Mapping):
        raise refused(path, "details.shape.pruned", pruned, "it must be an object of layers and heads")
    for layer, heads in pruned.items():
        known = (
            layer.isascii() and layer.isdigit() and len(layer) < 10 and int(layer) < shape["layers"] and isinstance(heads, list)
        )
        if (
            not known
            or not all(type(head) is int and 0 <= head < shape["heads"] for head in heads)
            or len({*heads}) < len(heads)
        ):
            allowed = f"the model has {shape['layers']} layers of {shape['heads']} heads"
            raise refused(path, f"details.shape.pruned[{layer[:20]!r}]", heads, allowed)


def _check_graphs(path: Path, details: Mapping[str, Any], graphs: Mapping[str, onnx.ModelProto]) -> None:
    """Checks that the graphs' outputs match the manifest, as far as the graphs declare them."""
    shape, capabilities = details["shape"], read_capabilities(details)
    hidden = {value.name for value in graphs[ANALYSIS].graph.output if value.name.partition(".")[0] == HIDDEN}
    if hidden - {at(HIDDEN, 0)} != {at(HIDDEN, layer) for layer in range(1, shape["layers"] + 1)}:
        raise refused(path, "details.shape.layers", shape["layers"], f"{ANALYSIS} has {len(hidden - {at(HIDDEN, 0)})} layers")
    widths = {
        LAST: ("shape.hidden_size", shape["hidden_size"]),
        LOGITS: ("shape.vocabulary_size", shape["vocabulary_size"]),
        TOKEN_LABELS: ("shape.head_labels", len(shape.get("head_labels", []))),
        ANSWERS: ("capabilities.question_answering", 2),
    }
    several = bool(capabilities.get("multi_label"))
    names, value = "head_labels" if several else "labels", bool(capabilities.get("regression"))
    widths[LABELS] = (f"shape.{names}", 1 if value else len(shape.get(names, [])))
    outputs = {value.name: value for value in graphs[FAST].graph.output}
    for name, (key, width) in widths.items():
        dimensions = outputs[name].type.tensor_type.shape.dim if name in outputs else ()
        if dimensions and dimensions[-1].HasField("dim_value") and dimensions[-1].dim_value != width:
            raise refused(path, f"details.{key}", width, f"{name} of {FAST} has {dimensions[-1].dim_value}")
    masked_lm = "capabilities.masked_lm" if "capabilities" in details else "shape.has_masked_lm_head"
    claims = (
        (masked_lm, capabilities.get("masked_lm"), LOGITS),
        (f"shape.{names}", shape.get(names) or value, LABELS),
        ("capabilities.classification", capabilities.get("classification") or several or value, LABELS),
        ("capabilities.token_classification", capabilities.get("token_classification"), TOKEN_LABELS),
        ("capabilities.question_answering", capabilities.get("question_answering"), ANSWERS),
        ("capabilities.next_sentence", capabilities.get("next_sentence"), NEXT_SENTENCE),
    )
    for key, claim, name in claims:
        if bool(claim) != (name in outputs):
            raise refused(path, f"details.{key}", claim, f"{FAST} gives {', '.join(outputs)}")


def _stored(path: Path, graph: onnx.ModelProto) -> list[Stored]:
    """Returns the floating-point tensors of a graph that are in the weights file."""
    found = []
    for tensor in tensors_of(graph):
        if tensor.data_location != onnx.TensorProto.EXTERNAL or tensor.data_type not in FORMATS:
            continue
        name, width = FORMATS[tensor.data_type]
        where = {entry.key: entry.value for entry in tensor.external_data}
        begin, length = int(where.get("offset", "0")), int(where["length"])
        if any(size < 0 for size in tensor.dims) or math.prod(tensor.dims) * width != length:
            message = f"{path} says that {tensor.name} is {list(tensor.dims)} in {name}, which does not take {length} bytes"
            raise unreadable(path.parent, f"{message}; export the model again")
        # `read_graph` has replaced the location by the file's real name, which may be a blob of the hub.
        found.append(Stored(weights_of(path.parent), tensor.name, name, tuple(tensor.dims), begin, begin + length))
    return found
