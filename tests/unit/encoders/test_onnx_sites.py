"""The activations of a feed-forward block are found however a graph stores the matrix that reads them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from bertscope_service.encoders.onnx.site_parts import read_by
from bertscope_service.encoders.onnx.streams import GraphIndex


def graph(nodes: Sequence[tuple[str, list[str], str]], weight: tuple[int, int]) -> GraphIndex:
    made = [onnx.helper.make_node(kind, inputs, [output]) for kind, inputs, output in nodes]
    constants = {"weight": np.zeros(weight, np.float32), "bias": np.zeros(8, np.float32), "scale": np.ones(1, np.float32)}
    initializers = [onnx.numpy_helper.from_array(values, name) for name, values in constants.items()]
    return GraphIndex(onnx.helper.make_graph(made, "block", [], [], initializers))


@pytest.mark.parametrize(
    ("nodes", "weight"),
    [
        ([("MatMul", ["gelu", "weight"], "product"), ("Add", ["product", "bias"], "written")], (32, 8)),
        (
            [
                ("Transpose", ["weight"], "turned"),
                ("MatMul", ["gelu", "turned"], "product"),
                ("Add", ["product", "bias"], "written"),
            ],
            (8, 32),
        ),
        ([("DequantizeLinear", ["weight", "scale"], "decoded"), ("MatMul", ["gelu", "decoded"], "written")], (32, 8)),
        ([("Gemm", ["gelu", "weight", "bias"], "written")], (32, 8)),
    ],
)
def test_what_a_linear_layer_reads(nodes: list[tuple[str, list[str], str]], weight: tuple[int, int]) -> None:
    assert read_by(graph(nodes, weight), "written") == ("gelu", 32)


@pytest.mark.parametrize(
    "nodes",
    [
        [("Softmax", ["gelu"], "written")],
        [("Exp", ["other"], "computed"), ("MatMul", ["gelu", "computed"], "written")],
    ],
)
def test_nothing_else_is_taken_for_one(nodes: list[tuple[str, list[str], str]]) -> None:
    assert read_by(graph(nodes, (32, 8)), "written") is None
