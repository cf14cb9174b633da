"""Reads the ONNX file of another program: its files, its number format, and the sizes that it takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import onnx

from bertscope_service.encoders.onnx.parts import tensors_of
from bertscope_service.encoders.onnx.sessions import unreadable
from bertscope_service.errors import FailedPrecondition

INPUTS = frozenset({"input_ids", "attention_mask", "token_type_ids"})
"""The inputs that such a graph may have; it must have the first two."""

HALF, INTEGER, WEIGHT_ONLY = "fp16", "int8", "weight_only"

MIXING = frozenset({"DynamicQuantizeLinear", "DynamicQuantizeMatMul", "DynamicQuantizeLSTM"})
"""Operators that take one scale for a whole tensor, and so for all texts of a batch."""

INTEGERS = MIXING | {"ConvInteger", "MatMulInteger", "MatMulIntegerToFloat", "QLinearConv", "QLinearMatMul", "QuantizeLinear"}
"""Operators of graphs that compute in 8 bits."""

WEIGHTS = frozenset({"DequantizeLinear", "MatMulNBits"})
"""Operators of graphs whose weights alone are integers, if they have none of `INTEGERS`."""


@dataclass(frozen=True, slots=True)
class GraphForm:
    """The bytes of a graph's files; its number format, "" for float32; and whether it has operators that mix texts."""

    size: int
    precision: str
    mixes: bool

    @classmethod
    def of(cls, file: Path, model: onnx.ModelProto) -> GraphForm:
        """Raises FailedPrecondition if a file of tensors is missing or elsewhere."""
        size = sum(path.stat().st_size for path in _files_of(file, model))
        operators = {node.op_type for node in _nodes(model.graph)}
        operators |= {node.op_type for function in model.functions for node in function.node}
        numbers: Counter[int] = Counter()
        for tensor in model.graph.initializer:
            numbers[tensor.data_type] += sum(tensor.dims)
        half = numbers[onnx.TensorProto.FLOAT16] > numbers[onnx.TensorProto.FLOAT]
        precision = INTEGER if operators & INTEGERS else WEIGHT_ONLY if operators & WEIGHTS else HALF if half else ""
        return cls(size, precision, bool(operators & MIXING))


def read_graph(file: Path) -> onnx.ModelProto:
    """Reads a file, without the tensors beside it. Raises FailedPrecondition."""
    try:
        return onnx.load(str(file), load_external_data=False)
    except Exception as error:  # protobuf raises many classes for malformed files
        raise unreadable(file, error) from error


def foreign_files(file: Path) -> tuple[Path, ...]:
    """Returns the file, and the files beside it that hold its tensors. Raises FailedPrecondition if one is missing or
    elsewhere."""
    return _files_of(file, read_graph(file))


def check_sizes(file: Path, model: onnx.ModelProto) -> None:
    """Raises FailedPrecondition for a graph that says it takes so many texts, or texts of one length, alone."""
    for value in model.graph.input:
        sizes = [dimension.dim_value for dimension in value.type.tensor_type.shape.dim]
        if value.name in INPUTS and any(sizes):
            texts, tokens = (*sizes, 0, 0)[:2]
            fixed = [f"{texts} texts at a time"] * bool(texts) + [f"texts of {tokens} tokens"] * bool(tokens)
            message = (
                f"{file} takes {' and '.join(fixed)} alone ({value.name} is {sizes}); it must take any number of texts of any "
                "length: export it with dynamic axes"
            )
            raise FailedPrecondition(message, "SOURCE_UNREADABLE", source=file)


def _nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """Yields the nodes of a graph and of those nested in it."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs) if attribute.HasField("g") or attribute.graphs else ():
                yield from _nodes(inner)


def _files_of(file: Path, model: onnx.ModelProto) -> tuple[Path, ...]:
    names = {
        entry.value
        for tensor in tensors_of(model)
        if tensor.data_location == onnx.TensorProto.EXTERNAL
        for entry in tensor.external_data
        if entry.key == "location"
    }
    for name in sorted(names):
        path = file.parent / name
        if Path(name).name != name or path.is_symlink():
            raise unreadable(file, ValueError(f"its weights lie in {name!r}; they may only lie in a file beside it, no link"))
        if not path.is_file():
            raise unreadable(file, ValueError(f"its weights should lie in {name!r} beside it, which does not exist"))
    return (file, *(file.parent / name for name in sorted(names)))
