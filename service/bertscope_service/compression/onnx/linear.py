"""Finds the weights of linear layers and embeddings in an ONNX graph, in both orientations that the exporter writes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import onnx
from numpy.typing import NDArray

from bertscope_service.compression.onnx.files import drop_unused


@dataclass(frozen=True, slots=True)
class Matrix:
    """A weight matrix in a graph. values: float32 [out, in] of a linear layer, [rows, columns] of an embedding."""

    name: str
    values: NDArray[np.float32]


class Weights:
    """The tensors of a graph, by name; new ones are added on first use."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self._graph = model.graph
        self._tensors = {tensor.name: tensor for tensor in model.graph.initializer}

    def matrix(self, name: str) -> NDArray[np.float32] | None:
        """Returns a float32 tensor of two dimensions; None if there is none of this name."""
        tensor = self._tensors.get(name)
        if tensor is None or tensor.data_type != onnx.TensorProto.FLOAT or len(tensor.dims) != 2:
            return None
        return np.asarray(onnx.numpy_helper.to_array(tensor))

    def add(self, name: str, values: NDArray[np.generic]) -> str:
        """Adds a tensor if it is missing. Returns its name."""
        if name not in self._tensors:
            tensor = onnx.numpy_helper.from_array(np.ascontiguousarray(values), name)
            self._graph.initializer.append(tensor)
            self._tensors[name] = tensor
        return name


def products(model: onnx.ModelProto) -> Iterator[tuple[onnx.NodeProto, Matrix | None]]:
    """Yields all nodes of a graph in their order, each with the weight matrix that it multiplies by, if it does.

    A product with weights is a MatMul of two inputs: the bias of a Gemm becomes a node of its own, and a matrix that is
    transposed while the model runs is replaced by its original. The model loses its nodes: the caller writes them anew, and
    calls `drop_unused`.
    """
    weights, nodes = Weights(model), list(model.graph.node)
    turned = {
        node.output[0]: node.input[0]
        for node in nodes
        if node.op_type == "Transpose" and weights.matrix(node.input[0]) is not None
    }
    del model.graph.node[:]
    for node in nodes:
        if node.op_type == "Gemm":
            yield from _split(node, weights)
            continue
        if node.op_type == "MatMul":
            name = node.input[1]
            source = weights.matrix(turned.get(name, name))
            if source is not None:
                # [in, out], or [out, in] if a transposition follows.
                yield node, Matrix(turned.get(name, name), source if name in turned else source.T)
                continue
        yield node, None


def _split(node: onnx.NodeProto, weights: Weights) -> Iterator[tuple[onnx.NodeProto, Matrix | None]]:
    """Splits a Gemm into a product and a sum; leaves it whole if it has no weights, or scales or transposes anything else."""
    options = {
        attribute.name: attribute.f if attribute.name in ("alpha", "beta") else attribute.i for attribute in node.attribute
    }
    values = weights.matrix(node.input[1])
    if values is None or options.get("transA", 0) or options.get("alpha", 1.0) != 1.0 or options.get("beta", 1.0) != 1.0:
        yield node, None
        return
    left, name, *bias = node.input
    result = f"{node.output[0]}.product" if bias else node.output[0]
    product = onnx.helper.make_node("MatMul", [left, name], [result], f"{node.name}.product")
    yield product, Matrix(name, values if options.get("transB", 0) else values.T)
    if bias:
        yield onnx.helper.make_node("Add", [result, bias[0]], [node.output[0]], f"{node.name}.bias"), None


def finish(model: onnx.ModelProto) -> onnx.ModelProto:
    """Declares ONNX Runtime's own operators, and removes the remains of the float32 products."""
    if "com.microsoft" not in {entry.domain for entry in model.opset_import}:
        model.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
    read = {name for node in model.graph.node for name in node.input} | {value.name for value in model.graph.output}
    idle = [node for node in model.graph.node if node.op_type == "Transpose" and not read.intersection(node.output)]
    for node in idle:
        model.graph.node.remove(node)
    drop_unused(model)
    del model.graph.value_info[:]
    return model
