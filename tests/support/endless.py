"""An ONNX file whose graph never ends for some texts: what a device can be given that it does not come back from."""

import json
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.support.tiny import write_checkpoint


def write_endless(folder: Path, token: str) -> Path:
    """Write a model that answers like any other, but loops for ever as soon as a text has this token; its ONNX file."""
    write_checkpoint("bert", folder)
    (folder / "model.safetensors").unlink()
    vocabulary = json.loads((folder / "config.json").read_text())["vocab_size"]
    pieces = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    scores = np.random.default_rng(0).normal(size=(vocabulary, vocabulary)).astype(np.float32)
    scalar = helper.make_tensor_value_info
    body = helper.make_graph(
        [helper.make_node("Identity", ["again"], ["and_again"]), helper.make_node("Add", ["sum", "sum"], ["doubled"])],
        "body",
        [scalar("turn", TensorProto.INT64, []), scalar("again", TensorProto.BOOL, []), scalar("sum", TensorProto.FLOAT, [])],
        [scalar("and_again", TensorProto.BOOL, []), scalar("doubled", TensorProto.FLOAT, [])],
    )
    nodes = [
        helper.make_node("Gather", ["scores", "input_ids"], ["looked"]),
        helper.make_node("Equal", ["input_ids", "trigger"], ["same"]),
        helper.make_node("Cast", ["same"], ["counted"], to=TensorProto.INT32),
        helper.make_node("ReduceMax", ["counted"], ["any"], keepdims=0),
        helper.make_node("Cast", ["any"], ["endless"], to=TensorProto.BOOL),
        helper.make_node("Loop", ["", "endless", "zero"], ["last"], body=body),
        helper.make_node("Add", ["looked", "last"], ["logits"]),
    ]
    sizes = ("batch", "length")
    graph = helper.make_graph(
        nodes,
        "endless",
        [scalar(name, TensorProto.INT64, sizes) for name in ("input_ids", "attention_mask")],
        [scalar("logits", TensorProto.FLOAT, (*sizes, vocabulary))],
        [
            numpy_helper.from_array(scores, "scores"),
            numpy_helper.from_array(np.array(pieces[token]), "trigger"),
            numpy_helper.from_array(np.array(0, dtype=np.float32), "zero"),
        ],
    )
    file = folder / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), str(file))
    return file
