"""Finds, in exported graphs, what layers are taken apart into and add to their input, and the parts of the masked-LM head.

The values are not among those that an export names, so they are found from the named ones beside them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import onnx

from bertscope_service.encoders.onnx.values import GATED, HIDDEN, LAST, LOGITS, OWN, at

PRODUCTS = frozenset({"Gemm", "MatMul"})


@dataclass(frozen=True, slots=True)
class NormValues:
    """Names of a layer normalisation's input, output, scale and shift ("" without one), and its epsilon."""

    read: str
    written: str
    scale: str
    shift: str
    epsilon: float


@dataclass(frozen=True, slots=True)
class LayerValues:
    """Names of values of a layer that has heads.

    values: V, [rows, length, heads * head_size]. projected: the output of the output projection. summed: its sum with the
    residual connection. norm: the layer normalisation of x + attention(x), None without one. adds_input: whether the residual
    connection is that of the layer's own input.
    """

    values: str
    projected: str
    summed: str
    norm: NormValues | None
    adds_input: bool


@dataclass(frozen=True, slots=True)
class StreamValues:
    """A layer: `summed`, the name of x + attention(x); `first` and `second`, the normalisations after both sums, None without
    one."""

    summed: str
    first: NormValues | None
    second: NormValues | None


@dataclass(frozen=True, slots=True)
class HeadValues:
    """The masked-LM head: names of the dense layer's output, of the normalisation, and of the decoder's weight and bias (""
    without one). transposed: whether a row of the weight belongs to an entry of the vocabulary, and not a column."""

    dense: str
    norm: NormValues
    weight: str
    bias: str
    transposed: bool


class GraphIndex:
    """The nodes of a graph by what they write."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        self.constants = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
        self._nodes = list(graph.node)
        self._makers = {name: node for node in self._nodes for name in node.output}

    def maker(self, name: str) -> onnx.NodeProto | None:
        """Returns the node that writes a value."""
        return self._makers.get(name)

    def readers(self, name: str) -> Sequence[onnx.NodeProto]:
        """Returns the nodes that read a value."""
        return [node for node in self._nodes if name in node.input]

    def norm(self, node: onnx.NodeProto | None) -> NormValues | None:
        """Returns a node as a layer normalisation; None if it is none, or its scale is computed."""
        if node is None or node.op_type != "LayerNormalization" or node.input[1] not in self.constants:
            return None
        shift = node.input[2] if len(node.input) > 2 else ""
        return NormValues(node.input[0], node.output[0], node.input[1], shift, float(attribute(node, "epsilon", 1e-5)))


def attribute(node: onnx.NodeProto, name: str, default: float) -> float:
    """Returns a number that a node has as an attribute."""
    values = {one.name: one.f if one.type == onnx.AttributeProto.FLOAT else one.i for one in node.attribute}
    return float(values.get(name, default))


def find_streams(graph: onnx.GraphProto, summed: Mapping[int, str], layers: int) -> dict[int, StreamValues]:
    """Returns the values of layers; `summed` names x + attention(x) of those where it is added to the layer's own input."""
    index = GraphIndex(graph)
    found = dict[int, StreamValues]()
    for layer in range(layers):
        if layer not in summed:
            continue
        readers = index.readers(summed[layer])
        first = index.norm(readers[0]) if len(readers) == 1 else None
        second = index.norm(index.maker(at(HIDDEN, layer + 1)))
        # Post-norm: both sums are normalised. Pre-norm: at most the last layer's second one is.
        if (first is None) == (second is None) or (first is None and layer == layers - 1):
            found[layer] = StreamValues(summed[layer], first, second)
    return found


def find_head(graph: onnx.GraphProto) -> HeadValues | None:
    """Returns the values of the masked-LM head, None if it has another form or is quantised."""
    index = GraphIndex(graph)
    decoder = index.maker(LOGITS)
    bias = ""
    if decoder is not None and decoder.op_type == "Add":
        bias = next((name for name in decoder.input if name in index.constants), "")
        decoder = next((index.maker(name) for name in decoder.input if name not in index.constants), None)
    if decoder is None or decoder.op_type not in PRODUCTS or decoder.input[1] not in index.constants:
        return None
    if len(decoder.input) > 2:
        bias = decoder.input[2]
    norm = index.norm(index.maker(decoder.input[0]))
    dense = _first_product(index)
    if norm is None or dense is None:
        return None
    transposed = decoder.op_type == "Gemm" and attribute(decoder, "transB", 0) == 1
    return HeadValues(dense, norm, decoder.input[1], bias, transposed)


def _first_product(index: GraphIndex) -> str | None:
    """Returns the output of the first linear layer of the head, with its bias."""
    value = LAST
    while True:
        readers = index.readers(value)
        if len(readers) != 1:
            return None
        value = readers[0].output[0]
        if readers[0].op_type in PRODUCTS:
            break
        if readers[0].op_type != "Reshape":
            return None
    after = index.readers(value)
    if len(after) == 1 and after[0].op_type == "Add" and any(name in index.constants for name in after[0].input):
        return str(after[0].output[0])
    return str(value)


class _Node(NamedTuple):
    """A node of a graph, without protobuf, which is slow to read again and again."""

    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    epsilon: float


def find_values(graph: onnx.GraphProto, layers: Sequence[int]) -> dict[int, LayerValues]:
    """Returns the names of the values of some layers; those of another form are missing."""
    nodes = [_Node(node.op_type, tuple(node.input), tuple(node.output), _epsilon(node)) for node in graph.node]
    known = {tensor.name for tensor in graph.initializer}
    makers = {name: node for node in nodes for name in node.outputs}
    found = {layer: _values_of(nodes, makers, known, layer) for layer in layers}
    return {layer: values for layer, values in found.items() if values is not None}


def declare(graph: onnx.GraphProto, names: set[str]) -> None:
    """Declares values, float32, that a graph does not declare, so that it can be cut there."""
    missing = names - {value.name for value in (*graph.value_info, *graph.output)}
    float32 = onnx.TensorProto.FLOAT
    graph.value_info.extend(onnx.helper.make_tensor_value_info(name, float32, None) for name in sorted(missing))


def normalised_in(graph: onnx.GraphProto, name: str) -> str | None:
    """Returns the name of the value that a layer normalisation makes `name` of; None if nothing of the kind makes it."""
    makers = [node for node in graph.node if name in node.output]
    return makers[0].input[0] if makers and makers[0].op_type == "LayerNormalization" else None


def _epsilon(node: onnx.NodeProto) -> float:
    """Returns the epsilon of a layer normalisation, ONNX's own if it names none."""
    return next((float(attribute.f) for attribute in node.attribute if attribute.name == "epsilon"), 1e-5)


def _values_of(nodes: Sequence[_Node], makers: Mapping[str, _Node], known: set[str], layer: int) -> LayerValues | None:
    attention = makers.get(at(OWN, layer))
    while attention is not None and attention.kind != "MultiHeadAttention":
        attention = makers.get(attention.inputs[0])
    found = _residual(nodes, at(GATED, layer), known)
    if attention is None or found is None:
        return None
    projected, residual, summed = found
    readers = [node for node in nodes if summed in node.inputs]
    if residual == at(HIDDEN, layer) and [node.kind for node in readers] == ["LayerNormalization"]:
        (norm,) = readers
        if norm.inputs[1] in known:
            shift = norm.inputs[2] if len(norm.inputs) > 2 else ""
            values = NormValues(summed, norm.outputs[0], norm.inputs[1], shift, norm.epsilon)
            return LayerValues(attention.inputs[2], projected, summed, values, adds_input=True)
    return LayerValues(attention.inputs[2], projected, summed, None, adds_input=residual == at(HIDDEN, layer))


def _residual(nodes: Sequence[_Node], gated: str, known: set[str]) -> tuple[str, str, str] | None:
    """Returns the operands and the result of the first sum of a value that follows from `gated` and one that does not."""
    follow = {gated}
    for node in nodes:
        if follow.isdisjoint(node.inputs):
            continue
        if node.kind == "Add" and known.isdisjoint(node.inputs) and not follow.issuperset(node.inputs):
            ours, other = sorted(node.inputs, key=lambda name: name not in follow)
            return ours, other, node.outputs[0]
        follow.update(node.outputs)
    return None
