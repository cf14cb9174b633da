"""Number formats of ONNX graphs, by ONNX Runtime's own quantisers."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import onnx

from bertscope_service.compression.onnx_files import drop_unused
from bertscope_service.scratch import Scratch

QUANTIZED = ("MatMul", "Gather")
"""Products with weights, and embeddings."""


def quantize_int8(model: onnx.ModelProto) -> onnx.ModelProto:
    """Weights as int8 with a scale for each output channel, activations as uint8 with a scale found at every run."""
    untie_products(model)
    with quiet(), Scratch() as scratch:
        from onnxruntime.quantization import QuantType, quantize_dynamic

        path = scratch.folder / "int8.onnx"
        quantize_dynamic(
            model,
            path,
            op_types_to_quantize=list(QUANTIZED),
            per_channel=True,
            weight_type=QuantType.QInt8,
            use_external_data_format=True,
            # Types can't be inferred behind ONNX Runtime's own operators.
            extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT},
        )
        return onnx.load(str(path))


def quantize_blocks(model: onnx.ModelProto, bits: int, block_size: int) -> onnx.ModelProto:
    """Weights in 4 or 8 bits with a scale and an offset for every `block_size` of them."""
    untie_products(model)
    with quiet():
        from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

        quantizer = MatMulNBitsQuantizer(model, bits=bits, block_size=block_size, op_types_to_quantize=QUANTIZED)
        quantizer.process()
        quantized: onnx.ModelProto = quantizer.model.model
        return quantized


def untie_products(model: onnx.ModelProto) -> None:
    """Let products that take a transposed matrix have a copy of their own.

    A masked-LM head multiplies by the embeddings. The quantisers would transpose these in place and leave the look-up of
    embeddings with the wrong matrix.
    """
    matrices = {tensor.name: tensor for tensor in model.graph.initializer}
    nodes = list(model.graph.node)
    del model.graph.node[:]
    for node in nodes:
        transposed = any(attribute.name == "transB" and attribute.i for attribute in node.attribute)
        if node.op_type != "Gemm" or not transposed or node.input[1] not in matrices:
            model.graph.node.append(node)
            continue
        left, name, *bias = node.input
        own, product = f"{name}.transposed", f"{node.output[0]}.product"
        values = onnx.numpy_helper.to_array(matrices[name]).T.copy()
        model.graph.initializer.append(onnx.numpy_helper.from_array(values, own))
        result = product if bias else node.output[0]
        model.graph.node.append(onnx.helper.make_node("MatMul", [left, own], [result], f"{node.name}.product"))
        if bias:
            model.graph.node.append(onnx.helper.make_node("Add", [product, bias[0]], [node.output[0]], f"{node.name}.bias"))
    drop_unused(model)


@contextmanager
def quiet() -> Iterator[None]:
    """Without the quantisers' chatter, which goes to the root logger itself; what other loggers pass on to it is untouched."""
    root, handler = logging.getLogger(), logging.NullHandler()

    def refuse(record: logging.LogRecord) -> bool:
        return record.levelno > logging.WARNING

    logging.getLogger("onnxruntime.quantization").setLevel(logging.ERROR)
    # They set the root logger up, for good, if it has no handler when they are imported.
    root.addHandler(handler)
    root.addFilter(refuse)
    try:
        yield
    finally:
        root.removeFilter(refuse)
        root.removeHandler(handler)
