"""Makes ONNX files of a masked language model as a user would who asks for words through tensors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from bertscope_service.compression.onnx.isolated_export import export_onnx
from bertscope_service.encoders.onnx.parts import cut
from bertscope_service.encoders.onnx.values import FAST, HIDDEN, IDS, LAST, LOGITS, SEGMENTS, VALID, at
from onnx.helper import make_node, make_tensor_value_info
from transformers import AutoConfig

from benchmarks.peers.cloze_clients import POSITION
from benchmarks.peers.graph import INPUTS

SCORES = "scores"
"""The output of both graphs."""


def write_cloze_graphs(checkpoint: Path, folder: Path) -> tuple[Path, Path]:
    """Writes two graphs of a checkpoint of BERT's architecture.

    The first returns the scores of all tokens [texts, length, vocabulary_size]; the second gathers the last hidden state at
    `mask_position`, and returns the scores of that token alone [texts, vocabulary_size].
    """
    exported_folder = folder / "graphs"
    exported_folder.mkdir(parents=True)
    export_onnx(checkpoint, "bert", exported_folder)
    exported = onnx.load(str(exported_folder / FAST))
    config = AutoConfig.from_pretrained(checkpoint)
    last = at(HIDDEN, config.num_hidden_layers)
    body, head = cut(exported, [IDS, SEGMENTS, VALID], [last]), cut(exported, [LAST], [LOGITS])
    written = folder / "all-scores.onnx", folder / "gathered-scores.onnx"
    for path, gathers in zip(written, (False, True), strict=True):
        part = _joined(body, head, last, config.vocab_size, gathers=gathers)
        onnx.save(with_standard_names(part, SCORES, SCORES), str(path))
    return written


def _joined(body: onnx.ModelProto, head: onnx.ModelProto, last: str, vocabulary: int, *, gathers: bool) -> onnx.ModelProto:
    """Returns the body and the head as one graph, with a gather between them or without."""
    part = onnx.ModelProto()
    part.CopyFrom(body)
    graph = part.graph
    initializers = {tensor.name: tensor for model in (body, head) for tensor in model.graph.initializer}
    del graph.initializer[:], graph.output[:]
    graph.initializer.extend(initializers.values())
    if gathers:
        graph.input.append(make_tensor_value_info(POSITION, onnx.TensorProto.INT64, ["texts", 1]))
        graph.initializer.append(onnx.numpy_helper.from_array(np.array([2]), "position.axes"))
        graph.node.append(make_node("Unsqueeze", [POSITION, "position.axes"], ["position.index"]))
        graph.node.append(make_node("GatherND", [last, "position.index"], [LAST], batch_dims=1))
    else:
        graph.node.append(make_node("Identity", [last], [LAST]))
    graph.node.extend(head.graph.node)
    if gathers:
        graph.node.append(make_node("Identity", [LOGITS], [SCORES]))
    else:
        # The head returns the tokens of all texts one after the other.
        graph.initializer.append(onnx.numpy_helper.from_array(np.array([vocabulary]), "vocabulary.size"))
        graph.node.append(make_node("Shape", [IDS], ["texts.shape"]))
        graph.node.append(make_node("Concat", ["texts.shape", "vocabulary.size"], ["scores.shape"], axis=0))
        graph.node.append(make_node("Reshape", [LOGITS, "scores.shape"], [SCORES]))
    shape: list[str | int | None] = ["texts", vocabulary] if gathers else ["texts", "length", vocabulary]
    graph.output.append(make_tensor_value_info(SCORES, onnx.TensorProto.FLOAT, shape))
    return part


def with_standard_names(part: onnx.ModelProto, output: str, name: str) -> onnx.ModelProto:
    """Renames the inputs of a part of our export as in transformers, with an int64 mask, and its output to `name`."""
    ids, mask, segments = INPUTS
    names = {IDS: ids, SEGMENTS: segments, output: name}
    for node in part.graph.node:
        node.input[:] = [names.get(one, one) for one in node.input]
        node.output[:] = [names.get(one, one) for one in node.output]
    for value in [*part.graph.input, *part.graph.output]:
        if value.name == VALID:
            value.name, value.type.tensor_type.elem_type = mask, onnx.TensorProto.INT64
        else:
            value.name = names.get(value.name, value.name)
    part.graph.node.insert(0, onnx.helper.make_node("Cast", [mask], [VALID], to=onnx.TensorProto.BOOL))
    return part
