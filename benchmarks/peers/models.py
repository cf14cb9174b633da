"""Makes the served models: encoders of random weights, as a checkpoint and as the one ONNX file that all sides run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
import torch
from bertscope_service.compression.onnx.isolated_export import export_onnx
from bertscope_service.embedded import EMBEDDED_FOLDER
from bertscope_service.encoders.onnx.parts import cut
from bertscope_service.encoders.onnx.values import FAST, HIDDEN, IDS, SEGMENTS, VALID, at
from numpy.typing import NDArray
from transformers import AutoTokenizer, BertConfig, BertModel

from benchmarks.peers.graph import INPUTS, OUTPUT

CLS, SEP, FIRST_WORD, LAST_WORD = 101, 102, 2000, 29000


@dataclass(frozen=True, slots=True)
class Shape:
    """An encoder: its name in the table, and its differences from bert-base."""

    title: str
    sizes: Mapping[str, int] = field(default_factory=dict)


SHAPES = {
    "tiny": Shape("2x128", {"num_hidden_layers": 2, "hidden_size": 128, "num_attention_heads": 2, "intermediate_size": 512}),
    "base": Shape("bert-base"),
}


@dataclass(frozen=True, slots=True)
class Written:
    """A model on disk: transformers' folder, and the ONNX file with a config and a tokenizer beside it."""

    checkpoint: Path
    graph: Path


def write_model(shape: Shape, folder: Path) -> Written:
    """Writes an encoder without a head. Its ONNX file is our own export, because ONNX Runtime runs attention in one operator
    there: it is a fifth faster than torch.onnx's export of the same weights."""
    torch.manual_seed(5)
    checkpoint, graphs, hosted = folder / "checkpoint", folder / "graphs", folder / "onnx"
    for path in (checkpoint, graphs, hosted):
        path.mkdir(parents=True)
    config = BertConfig(**shape.sizes)
    BertModel(config, add_pooling_layer=False).save_pretrained(checkpoint)
    export_onnx(checkpoint, "bert", graphs)
    exported = onnx.load(str(graphs / FAST))
    last = at(HIDDEN, config.num_hidden_layers)
    part = cut(exported, [IDS, SEGMENTS, VALID], [last])
    onnx.save(with_standard_names(part, last, OUTPUT), str(hosted / "model.onnx"))
    for described in (checkpoint, hosted):
        AutoTokenizer.from_pretrained(EMBEDDED_FOLDER).save_pretrained(described)
    config.save_pretrained(hosted)
    return Written(checkpoint, hosted / "model.onnx")


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


def feeds(lengths: list[int]) -> dict[str, NDArray[np.int64]]:
    """Returns inputs of the graph for texts of these numbers of tokens, padded to the longest; always the same ones."""
    draw = np.random.default_rng(5)
    ids, mask = np.zeros((2, len(lengths), max(lengths)), np.int64)
    for row, length in enumerate(lengths):
        ids[row, :length] = [CLS, *draw.integers(FIRST_WORD, LAST_WORD, length - 2), SEP]
        mask[row, :length] = 1
    return dict(zip(INPUTS, (ids, mask, np.zeros_like(ids)), strict=True))
