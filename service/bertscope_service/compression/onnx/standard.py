"""The graph that other programs expect: transformers' input names, optimum's output and file names, the weights of the others.

folder/model.onnx       input_ids, attention_mask, token_type_ids -> last_hidden_state, and logits or start_logits, end_logits
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx
from onnx import TensorProto, helper

from bertscope_service.compression.onnx.files import drop_unused
from bertscope_service.encoders.onnx.values import ANSWERS, IDS, LABELS, LAST, LOGITS, POSITIONS, SEGMENTS, TOKEN_LABELS, VALID

STANDARD = "model.onnx"
"""The file's name, which optimum, sentence-transformers and Triton look for."""

BATCH, LENGTH = "batch_size", "sequence_length"
PREFIX = "bertscope"
"""Begins the names of the values that are added, and of those that give theirs to outputs."""


def standard(fast: onnx.ModelProto, hidden_size: int, *, reads_segments: bool) -> onnx.ModelProto:
    """Returns a fast graph behind the inputs and outputs that other programs know.

    Inputs, int64 [batch_size, sequence_length]: input_ids, attention_mask (1 for tokens, 0 for padding) and, of models with
    segments, token_type_ids. Outputs: last_hidden_state [batch_size, sequence_length, hidden]; logits, of the masked-LM or
    token labels at every token, or of the labels of texts; start_logits and end_logits of answers.
    """
    model = onnx.ModelProto()
    model.CopyFrom(fast)
    graph = model.graph
    names = {value.name: value for value in graph.output}
    for node in graph.node:  # "logits" becomes the name of an output, which may be another one
        node.output[:] = [f"{PREFIX}.{name}" if name in names else name for name in node.output]
        node.input[:] = [f"{PREFIX}.{name}" if name in names else name for name in node.input]
    inputs = ["input_ids", "attention_mask", *(["token_type_ids"] if reads_segments else [])]
    outputs = dict(_outputs(set(names), _widths(names), hidden_size))
    body = [*_before(reads_segments=reads_segments), *graph.node, *_after(set(names))]
    del graph.node[:], graph.input[:], graph.output[:], graph.value_info[:]
    graph.node.extend(body)
    graph.input.extend(helper.make_tensor_value_info(name, TensorProto.INT64, [BATCH, LENGTH]) for name in inputs)
    graph.output.extend(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in outputs.items())
    graph.initializer.append(helper.make_tensor(f"{PREFIX}.rest", TensorProto.INT64, [1], [-1]))
    graph.initializer.extend(helper.make_tensor(f"{PREFIX}.{n}", TensorProto.INT64, [], [n]) for n in (0, 1))
    drop_unused(model)
    return model


def _before(*, reads_segments: bool) -> Iterator[onnx.NodeProto]:
    """Yields what makes the fast graph's inputs of the others: every token is a position to answer at."""
    shape, length, count = (f"{PREFIX}.{name}" for name in ("shape", "length", "range"))
    yield helper.make_node("Identity", ["input_ids"], [IDS])
    yield helper.make_node("Cast", ["attention_mask"], [VALID], to=TensorProto.BOOL)
    if reads_segments:
        yield helper.make_node("Identity", ["token_type_ids"], [SEGMENTS])
    else:
        yield helper.make_node("Sub", ["input_ids", "input_ids"], [SEGMENTS])
    yield helper.make_node("Shape", ["input_ids"], [shape])
    yield helper.make_node("Gather", [shape, f"{PREFIX}.1"], [length])
    yield helper.make_node("Range", [f"{PREFIX}.0", length, f"{PREFIX}.1"], [count])
    yield helper.make_node("Expand", [count, shape], [POSITIONS])


def _after(found: set[str]) -> Iterator[onnx.NodeProto]:
    """Yields what makes the outputs of the fast graph's."""
    yield helper.make_node("Identity", [f"{PREFIX}.{LAST}"], ["last_hidden_state"])
    if LOGITS in found:  # [batch_size * sequence_length, vocabulary]
        yield helper.make_node("Concat", [f"{PREFIX}.shape", f"{PREFIX}.rest"], [f"{PREFIX}.unflattened"], axis=0)
        yield helper.make_node("Reshape", [f"{PREFIX}.{LOGITS}", f"{PREFIX}.unflattened"], ["logits"])
    elif labels := {LABELS, TOKEN_LABELS} & found:
        yield helper.make_node("Identity", [f"{PREFIX}.{labels.pop()}"], ["logits"])
    if ANSWERS in found:
        for place, name in enumerate(("start_logits", "end_logits")):
            yield helper.make_node("Gather", [f"{PREFIX}.{ANSWERS}", f"{PREFIX}.{place}"], [name], axis=-1)


def _outputs(found: set[str], widths: dict[str, int | str], hidden_size: int) -> Iterator[tuple[str, list[int | str]]]:
    """Yields the names and shapes of the outputs."""
    yield "last_hidden_state", [BATCH, LENGTH, hidden_size]
    if LOGITS in found:
        yield "logits", [BATCH, LENGTH, widths[LOGITS]]
    elif TOKEN_LABELS in found:
        yield "logits", [BATCH, LENGTH, widths[TOKEN_LABELS]]
    elif LABELS in found:
        yield "logits", [BATCH, widths[LABELS]]
    if ANSWERS in found:
        yield "start_logits", [BATCH, LENGTH]
        yield "end_logits", [BATCH, LENGTH]


def _widths(outputs: dict[str, onnx.ValueInfoProto]) -> dict[str, int | str]:
    """Returns the last dimensions of outputs; a name for one that the graph leaves open."""
    dimensions = {name: list(value.type.tensor_type.shape.dim) for name, value in outputs.items()}
    return {name: (sizes[-1].dim_value or f"{name}_size") if sizes else f"{name}_size" for name, sizes in dimensions.items()}
