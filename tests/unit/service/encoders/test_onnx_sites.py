"""The activations of a feed-forward block and the parts of a head are found however a graph stores its matrices."""

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from bertscope_service.encoders.onnx.site_parts import read_by
from bertscope_service.encoders.onnx.streams import GraphIndex, HeadValues, NormValues, find_head
from bertscope_service.encoders.onnx.values import LAST, LOGITS


def graph(nodes: Sequence[tuple[str, list[str], str]], weight: tuple[int, int]) -> GraphIndex:
    made = [onnx.helper.make_node(kind, inputs, [output]) for kind, inputs, output in nodes]
    return GraphIndex(onnx.helper.make_graph(made, "block", [], [], constants(weight)))


def constants(weight: tuple[int, int]) -> list[onnx.TensorProto]:
    values = {"weight": np.zeros(weight, np.float32), "bias": np.zeros(8, np.float32), "scale": np.ones(1, np.float32)}
    return [onnx.numpy_helper.from_array(array, name) for name, array in values.items()]


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
    "nodes", [[("Softmax", ["gelu"], "written")], [("Exp", ["other"], "computed"), ("MatMul", ["gelu", "computed"], "written")]]
)
def test_nothing_else_is_taken_for_one(nodes: list[tuple[str, list[str], str]]) -> None:
    assert read_by(graph(nodes, (32, 8)), "written") is None


@pytest.mark.parametrize(
    ("decoder", "bias"),
    [
        ([("MatMul", ["normed", "weight"], LOGITS)], ""),
        ([("MatMul", ["normed", "weight"], "product"), ("Add", ["product", "bias"], LOGITS)], "bias"),
        ([("Gemm", ["normed", "weight"], LOGITS)], ""),
        ([("Gemm", ["normed", "weight", "bias"], LOGITS)], "bias"),
    ],
)
def test_parts_of_a_head(decoder: list[tuple[str, list[str], str]], bias: str) -> None:
    head = [
        ("MatMul", [LAST, "weight"], "dense"),
        ("Gelu", ["dense"], "gelu"),
        ("LayerNormalization", ["gelu", "scale"], "normed"),
        *decoder,
    ]
    nodes = [onnx.helper.make_node(kind, inputs, [output]) for kind, inputs, output in head]
    found = find_head(onnx.helper.make_graph(nodes, "head", [], [], constants((32, 8))))
    assert found == HeadValues(
        "dense", NormValues("gelu", "normed", "scale", "", pytest.approx(1e-5)), "weight", bias, transposed=False
    )
