"""Number formats of ONNX graphs: 8-bit integers, and weights in blocks of few bits.

Every scale belongs to one token: a text's result does not depend on the texts in its batch. ONNX Runtime's own dynamic
quantisation has one scale for the whole batch, padding included.
"""

from __future__ import annotations

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

from bertscope_service.compression.onnx.linear import Matrix, Weights, finish, products
from bertscope_service.encoders.torch.quantization import LARGEST

ORT = "com.microsoft"
"""The domain of ONNX Runtime's own operators."""

ZERO = 128
"""The code of 0 in unsigned activations: the kernels take unsigned ones, and signed ones are slower."""

TINY = 1e-30
"""Tokens whose largest number is smaller count as zero."""

HUGE = 1e38
"""A step that rounds anything to zero."""

GELU_LEAST = -0.17
"""The GELU nowhere lies below -0.16997: the size of a token's negative numbers need not be looked for."""


def quantize_int8(model: onnx.ModelProto) -> onnx.ModelProto:
    """Quantises weights to int8 with a scale for each output or row, activations to uint8 with a scale for each token.

    Activations are quantised at every run; products are of integers, summed in 32 bits. The stored numbers equal the torch
    runtime's.
    """
    weights = Weights(model)
    nodes = list(products(model))
    bounded = {node.output[0] for node, _ in nodes if node.op_type == "Gelu"}
    looked_up = {node.input[0] for node, _ in nodes if node.op_type == "Gather"}
    coded: dict[str, list[onnx.NodeProto]] = {}
    constants: dict[str, NDArray[np.generic]] = {
        "int8.one": np.array(1, np.float32),
        "int8.zero": np.array(ZERO, np.uint8),
        "int8.tiny": np.array(TINY, np.float32),
        "int8.steps": np.array(1 / LARGEST, np.float32),
        "int8.huge": np.array(HUGE, np.float32),
        "int8.last": np.array([-1], np.int64),
        "int8.flat": np.array([-1], np.int64),
    }
    for name, values in constants.items():
        weights.add(name, values)
    for node, matrix in nodes:
        if matrix is not None:
            x = node.input[0]
            if x not in coded:
                coded[x] = _codes(x, matrix.values.shape[1], GELU_LEAST if x in bounded else None, weights)
                model.graph.node.extend(coded[x])
            model.graph.node.extend(_integer_product(node, matrix, weights, matrix.name in looked_up))
        elif node.op_type == "Gather" and (table := weights.matrix(node.input[0])) is not None:
            model.graph.node.extend(_integer_rows(node, Matrix(node.input[0], table), weights))
        else:
            model.graph.node.append(node)
    return finish(model)


def _codes(x: str, width: int, least: float | None, weights: Weights) -> list[onnx.NodeProto]:
    """Returns nodes that convert `x` [..., width] to unsigned codes, with the size of a step for each token, [..., 1].

    `least` is a lower bound that the activation function gives `x`; None where the numbers have to be searched for it.

    ONNX Runtime's QuantizeLinear takes a scale for each row of a matrix, so it divides and rounds in one pass.
    """
    row = weights.add(f"int8.rows.{width}", np.array([-1, width], np.int64))
    if least is None:
        low = [
            helper.make_node("ReduceMin", [x, "int8.last"], [f"{x}.least"], keepdims=1),
            helper.make_node("Neg", [f"{x}.least"], [f"{x}.depth"]),
        ]
        bounds = [f"{x}.depth", "int8.tiny"]
    else:
        low, bounds = [], [weights.add(f"int8.depth.{-least}", np.array(-least, np.float32))]
    return [
        helper.make_node("ReduceMax", [x, "int8.last"], [f"{x}.most"], keepdims=1),
        *low,
        helper.make_node("Max", [f"{x}.most", *bounds], [f"{x}.largest"]),
        helper.make_node("Mul", [f"{x}.largest", "int8.steps"], [f"{x}.step"]),
        helper.make_node("Reshape", [f"{x}.step", "int8.flat"], [f"{x}.scales"]),
        # A zero for each row, of the same shape as the scales: whatever they are, they are far below this step.
        helper.make_node("QuantizeLinear", [f"{x}.scales", "int8.huge", "int8.zero"], [f"{x}.zeros"]),
        helper.make_node("Reshape", [x, row], [f"{x}.tokens"]),
        helper.make_node("QuantizeLinear", [f"{x}.tokens", f"{x}.scales", f"{x}.zeros"], [f"{x}.token_codes"], axis=0),
        helper.make_node("Shape", [x], [f"{x}.code_shape"]),
        helper.make_node("Reshape", [f"{x}.token_codes", f"{x}.code_shape"], [f"{x}.codes"]),
    ]


def _integer_product(node: onnx.NodeProto, matrix: Matrix, weights: Weights, shared: bool) -> list[onnx.NodeProto]:
    """Returns nodes for a product with weights. `shared`: the matrix is also an embedding and is stored like one, rows
    first."""
    x, name = node.input[0], matrix.name
    values, scales = integers(matrix.values)
    nodes = []
    if shared:
        # ONNX Runtime transposes it once, when it creates a session.
        weights.add(f"{name}.int8", values)
        turned = f"{node.output[0]}.weight"
        nodes.append(helper.make_node("Transpose", [f"{name}.int8"], [turned], perm=[1, 0]))
    else:
        turned = weights.add(f"{name}.int8.turned", values.T)
    weights.add(f"{name}.int8.scales", scales)
    sums = f"{node.output[0]}.steps"
    inputs = [f"{x}.codes", turned, "int8.one", f"{name}.int8.scales", "int8.zero"]
    nodes.append(helper.make_node("MatMulIntegerToFloat", inputs, [sums], domain=ORT))
    nodes.append(helper.make_node("Mul", [sums, f"{x}.step"], [node.output[0]]))
    return nodes


def _integer_rows(node: onnx.NodeProto, table: Matrix, weights: Weights) -> list[onnx.NodeProto]:
    """Returns nodes that look up rows of a matrix of integers and decode them."""
    values, scales = integers(table.values)
    weights.add(f"{table.name}.int8", values)
    weights.add(f"{table.name}.int8.row_scales", scales[:, None])
    result, ids = node.output[0], node.input[1]
    return [
        helper.make_node("Gather", [f"{table.name}.int8", ids], [f"{result}.integers"], axis=0),
        helper.make_node("Cast", [f"{result}.integers"], [f"{result}.floats"], to=onnx.TensorProto.FLOAT),
        helper.make_node("Gather", [f"{table.name}.int8.row_scales", ids], [f"{result}.scales"], axis=0),
        helper.make_node("Mul", [f"{result}.floats", f"{result}.scales"], [result]),
    ]


def integers(matrix: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Returns the nearest int8 matrix whose rows reach from -127 to 127, and the float32 factor of each row."""
    scales = (np.abs(matrix).max(axis=1) / np.float32(LARGEST)).astype(np.float32)
    scales[scales == 0] = 1.0
    return np.rint(matrix / scales[:, None]).astype(np.int8), scales


def quantize_blocks(model: onnx.ModelProto, bits: int, block_size: int) -> onnx.ModelProto:
    """Quantises weights to 4 or 8 bits with a scale and an offset for every `block_size` of them, embeddings too; products
    are float32."""
    weights = Weights(model)
    for node, matrix in list(products(model)):
        if matrix is not None:
            model.graph.node.append(_block_product(node, matrix, weights, bits, block_size))
        elif node.op_type == "Gather" and (table := weights.matrix(node.input[0])) is not None:
            model.graph.node.append(_block_rows(node, Matrix(node.input[0], table), weights, bits, block_size))
        else:
            model.graph.node.append(node)
    return finish(model)


def _block_product(node: onnx.NodeProto, matrix: Matrix, weights: Weights, bits: int, block_size: int) -> onnx.NodeProto:
    out, count = matrix.values.shape
    codes, scales, zeros = blocks(matrix.values, bits, block_size)
    inputs = [
        node.input[0],
        weights.add(f"{matrix.name}.blocks", codes),
        weights.add(f"{matrix.name}.scales", scales),
        weights.add(f"{matrix.name}.zeros", zeros),
    ]
    return helper.make_node(
        "MatMulNBits", inputs, list(node.output), node.name, domain=ORT, K=count, N=out, bits=bits, block_size=block_size
    )


def _block_rows(node: onnx.NodeProto, table: Matrix, weights: Weights, bits: int, block_size: int) -> onnx.NodeProto:
    """Returns a node with tensors of the same bytes as a product with the same matrix, so that a weights file holds them
    once."""
    rows, columns = table.values.shape
    codes, scales, zeros = blocks(table.values, bits, block_size)
    inputs = [
        weights.add(f"{table.name}.rows", codes.reshape(rows, -1)[:, : -(-columns * bits // 8)]),
        node.input[1],
        weights.add(f"{table.name}.scales", scales),
        weights.add(f"{table.name}.zeros", zeros),
    ]
    return helper.make_node(
        "GatherBlockQuantized",
        inputs,
        list(node.output),
        node.name,
        domain=ORT,
        bits=bits,
        block_size=block_size,
        gather_axis=0,
        quantize_axis=1,
    )


def blocks(
    matrix: NDArray[np.float32], bits: int, block_size: int
) -> tuple[NDArray[np.uint8], NDArray[np.float32], NDArray[np.uint8]]:
    """Converts a matrix [out, in] to the form of MatMulNBits; value = (code - zero) * scale.

    Codes uint8 [out, blocks, block_size * bits / 8], two of 4 bits in a byte, the first in its lower half; scales float32
    [out, blocks]; zeros uint8 [out, ceil(blocks * bits / 8)]. The last block reaches beyond the row's end; codes there are
    those of 0.
    """
    out, count = matrix.shape
    padded = np.pad(matrix, ((0, 0), (0, -count % block_size))).reshape(out, -1, block_size)
    low, high = np.minimum(padded.min(axis=2), 0), np.maximum(padded.max(axis=2), 0)
    largest = 2**bits - 1
    scales = ((high - low) / largest).astype(np.float32)
    scales[scales == 0] = 1.0
    zeros = np.clip(np.rint(-low / scales), 0, largest).astype(np.uint8)
    codes = np.clip(np.rint(padded / scales[..., None]) + zeros[..., None], 0, largest).astype(np.uint8)
    return (_halves(codes), scales, _halves(zeros)) if bits == 4 else (codes, scales, zeros)


def _halves(codes: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Packs codes of 4 bits, two in a byte along the last dimension, the first in the lower half."""
    even = np.pad(codes, (*((0, 0),) * (codes.ndim - 1), (0, codes.shape[-1] % 2)))
    return np.asarray(even[..., ::2] | (even[..., 1::2] << 4), dtype=np.uint8)
