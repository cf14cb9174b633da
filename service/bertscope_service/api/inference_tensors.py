"""Conversion between tensors of the Open Inference Protocol and numpy arrays.

Elements travel raw, little-endian in one `bytes` for each tensor, or typed, in a repeated field of the tensor itself. Every
check names the input. A shape is used only after it was compared with the contents.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, TypeAlias

import numpy as np
from bertscope.inference import open_inference_pb2 as oip
from numpy.typing import NDArray

from bertscope_service.analyses.tensors import Elements, Tensor
from bertscope_service.errors import InvalidArgument

NUMBERS: dict[str, tuple[str, np.dtype[Any]]] = {
    "INT64": ("int64_contents", np.dtype("<i8")),
    "INT32": ("int_contents", np.dtype("<i4")),
}
"""Datatypes of ids, with their field of InferTensorContents and their elements."""

MAX_INPUTS = 4
"""Maximum number of inputs, the number of names: a message has room for millions of empty inputs."""

VARINT_BITS, LENGTH_BYTES = 7, 4

Output: TypeAlias = oip.ModelInferResponse.InferOutputTensor
Part: TypeAlias = "NDArray[Any] | bytes"
"""A part of a serialised message."""


class Inputs:
    """The inputs of a request by name, unread. Raises InvalidArgument for contents that belong to no input or to several."""

    def __init__(self, request: oip.ModelInferRequest) -> None:
        if len(request.inputs) > MAX_INPUTS:
            message = f"inputs has {len(request.inputs)} entries, and there are {MAX_INPUTS} names; send each once"
            raise InvalidArgument("inputs", message, "TOO_MANY_INPUTS")
        self.raw = bool(request.raw_input_contents)
        if self.raw and len(request.raw_input_contents) != len(request.inputs):
            message = (
                f"raw_input_contents has {len(request.raw_input_contents)} entries and inputs {len(request.inputs)}; send one "
                "for each input, or none and contents in each"
            )
            raise InvalidArgument("raw_input_contents", message, "CONTENTS_MISMATCH")
        self._tensors: dict[str, tuple[oip.ModelInferRequest.InferInputTensor, bytes]] = {}
        self._shapes: dict[str, tuple[int, ...]] = {}
        for index, tensor in enumerate(request.inputs):
            name = tensor.name
            if name in self._tensors:
                message = f"inputs[{index}] is {name!r} for the second time; send each once"
                raise InvalidArgument(f"inputs[{index}]", message, "DUPLICATE")
            if "shared_memory_region" in tensor.parameters:
                message = f"{name} lies in shared memory, which this server does not read; send its elements"
                raise InvalidArgument(name, message, "SHARED_MEMORY")
            if self.raw and tensor.HasField("contents"):
                message = f"{name} has contents beside raw_input_contents; send one of them"
                raise InvalidArgument(name, message, "CONTENTS_TWICE")
            self._tensors[name] = tensor, request.raw_input_contents[index] if self.raw else b""

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._tensors)

    def shape(self, name: str, form: str, ranks: tuple[int, ...]) -> tuple[int, ...]:
        """Returns an input's dimensions, each at least 1. `form` describes the expected ones."""
        shape = self._shapes.get(name)
        if shape is None:
            shape = tuple(self._tensors[name][0].shape)
            if len(shape) not in ranks or min(shape) < 1:
                message = f"{name} has shape {list(shape)}; it must be {form}, each at least 1"
                raise InvalidArgument(name, message, "SHAPE_MISMATCH")
            # Each access to protobuf's containers takes microseconds.
            self._shapes[name] = shape
        return shape

    def integers(self, name: str) -> NDArray[np.int64]:
        """Returns an input of INT64 or INT32, in its shape, which was checked."""
        tensor, raw = self._tensors[name]
        shape = self._shapes[name]
        if tensor.datatype not in NUMBERS:
            message = f"{name} is {tensor.datatype or 'without a datatype'}; send INT64 or INT32"
            raise InvalidArgument(name, message, "DATATYPE_MISMATCH")
        field, dtype = NUMBERS[tensor.datatype]
        count = math.prod(shape)
        if self.raw:
            check_size(name, tensor, len(raw), count * dtype.itemsize, "bytes")
            values = np.frombuffer(raw, dtype=dtype)
        else:
            contents = _contents(name, tensor, field)
            check_size(name, tensor, len(contents), count, f"elements in {field}")
            values = np.fromiter(contents, dtype=dtype, count=count)
        return values.astype(np.int64, copy=False).reshape(shape)

    def words(self, name: str) -> list[bytes]:
        """Returns the elements of an input of BYTES whose shape was checked."""
        tensor, raw = self._tensors[name]
        if tensor.datatype != "BYTES":
            raise InvalidArgument(name, f"{name} is {tensor.datatype or 'without a datatype'}; send BYTES", "DATATYPE_MISMATCH")
        count = math.prod(self._shapes[name])
        # Reads at most one too many: a request has room for millions of empty elements.
        found = islice(split(name, raw), count + 1) if self.raw else _contents(name, tensor, "bytes_contents")
        words = list(found)
        check_size(name, tensor, len(words), count, "elements, or more," if len(words) > count else "elements")
        return words


def check_size(name: str, tensor: oip.ModelInferRequest.InferInputTensor, found: int, wanted: int, unit: str) -> None:
    """Raises InvalidArgument unless the number of elements matches the shape."""
    if found != wanted:
        message = f"{name} has {found} {unit} and its shape {list(tensor.shape)} of {tensor.datatype} takes {wanted}"
        raise InvalidArgument(name, f"{message}; correct one of them", "SIZE_MISMATCH")


def _contents(name: str, tensor: oip.ModelInferRequest.InferInputTensor, field: str) -> Sequence[Any]:
    """Returns a typed field; the others must be empty."""
    others = [filled.name for filled, _ in tensor.contents.ListFields() if filled.name != field]
    if others:
        message = f"{name} has elements in {others[0]}; {tensor.datatype} belongs into {field}"
        raise InvalidArgument(name, message, "DATATYPE_MISMATCH")
    found: Sequence[Any] = getattr(tensor.contents, field)
    return found


def split(name: str, raw: bytes) -> Iterator[bytes]:
    """Yields elements of BYTES, each stored after its length."""
    place = 0
    while place < len(raw):
        begin = place + LENGTH_BYTES
        place = begin + int.from_bytes(raw[place:begin], "little")
        if begin > len(raw) or place > len(raw):
            message = f"{name} ends inside an element; write each after its length, {LENGTH_BYTES} bytes, little-endian"
            raise InvalidArgument(name, message, "SIZE_MISMATCH")
        yield raw[begin:place]


def serialize(response: oip.ModelInferResponse, tensors: Sequence[Tensor], *, raw: bool) -> bytes:
    """Serialises a reply with some tensors added, raw or typed; protobuf would copy their elements several times more."""
    outputs: list[Part] = []
    contents: list[Part] = []
    for tensor in tensors:
        output: list[Part] = [Output(name=tensor.name, datatype=tensor.datatype, shape=tensor.shape).SerializeToString()]
        if raw:
            contents += delimited(oip.ModelInferResponse.RAW_OUTPUT_CONTENTS_FIELD_NUMBER, list(_raw(tensor.elements)))
        else:
            output += delimited(Output.CONTENTS_FIELD_NUMBER, _typed(tensor))
        outputs += delimited(oip.ModelInferResponse.OUTPUTS_FIELD_NUMBER, output)
    message: list[Any] = [response.SerializeToString(), *outputs, *contents]
    return b"".join(message)


def _raw(elements: Elements) -> Iterator[Part]:
    """Yields the parts of raw contents."""
    for part in elements:
        if isinstance(part, bytes):
            yield len(part).to_bytes(LENGTH_BYTES, "little")
            yield part
        else:
            yield _little_endian(part)


def _typed(tensor: Tensor) -> list[Part]:
    """Returns a serialised InferTensorContents."""
    if tensor.datatype == "FP32":
        # Protobuf packs them like raw ones.
        return delimited(oip.InferTensorContents.FP32_CONTENTS_FIELD_NUMBER, list(_raw(tensor.elements)))
    if tensor.datatype == "BYTES":
        number = oip.InferTensorContents.BYTES_CONTENTS_FIELD_NUMBER
        return [part for word in tensor.elements for part in delimited(number, [word])]
    values = [value for part in tensor.elements for value in np.ravel(part).tolist()]
    return [oip.InferTensorContents(int64_contents=values).SerializeToString()]


def _little_endian(part: NDArray[Any]) -> NDArray[Any]:
    return np.ascontiguousarray(part, dtype=part.dtype.newbyteorder("<"))


def delimited(number: int, parts: Sequence[Part]) -> list[Part]:
    """Returns a field of a protobuf message, with its length before it, in parts."""
    length = sum(len(part) if isinstance(part, bytes) else part.nbytes for part in parts)
    return [header(number, length), *parts]


def header(number: int, length: int) -> bytes:
    """Returns the key and the length that precede a field of `length` bytes in a protobuf message."""
    out = bytearray([number << 3 | 2])
    while length >> VARINT_BITS:
        out.append(length & 0x7F | 0x80)
        length >>= VARINT_BITS
    out.append(length)
    return bytes(out)
