"""Requests of the Open Inference Protocol from numpy arrays, and their replies as numpy arrays."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from bertscope.inference import open_inference_pb2 as oip
from numpy.typing import NDArray

NUMBERS = {"INT64": np.int64, "INT32": np.int32, "FP32": np.float32}
FIELDS = {"INT64": "int64_contents", "INT32": "int_contents", "FP32": "fp32_contents", "BYTES": "bytes_contents"}
Value = NDArray[Any] | Sequence[str] | Sequence[bytes]


def request_of(
    inputs: Mapping[str, Value], outputs: Sequence[str] = (), *, model: str = "bert", raw: bool = True, **parameters: Any
) -> oip.ModelInferRequest:
    """Arrays of int64 or int32 are sent as they are, words as BYTES of shape [n]."""
    request = oip.ModelInferRequest(model_name=model, id="mine")
    for name, value in inputs.items():
        words = None if isinstance(value, np.ndarray) else [w.encode() if isinstance(w, str) else w for w in value]
        datatype = "BYTES" if words is not None else "INT32" if np.asarray(value).dtype == np.int32 else "INT64"
        shape = [len(words)] if words is not None else np.shape(value)
        tensor = request.inputs.add(name=name, datatype=datatype, shape=shape)
        if raw:
            content = np.asarray(value).tobytes() if words is None else b"".join(map(prefixed, words))
            request.raw_input_contents.append(content)
        else:
            getattr(tensor.contents, FIELDS[datatype]).extend(np.ravel(value).tolist() if words is None else words)
    for name in outputs:
        request.outputs.add(name=name)
    for name, parameter in parameters.items():
        kind = {str: "string_param", float: "double_param", int: "int64_param", bool: "bool_param"}[type(parameter)]
        setattr(request.parameters[name], kind, parameter)
    return request


def prefixed(word: bytes) -> bytes:
    """An element of BYTES as raw contents have it."""
    return len(word).to_bytes(4, "little") + word


def arrays_of(response: oip.ModelInferResponse) -> dict[str, NDArray[Any]]:
    """The tensors of a reply, which must be as large as their shapes say; BYTES as an array of str."""
    raw = list(response.raw_output_contents)
    assert len(raw) in (0, len(response.outputs))
    found: dict[str, NDArray[Any]] = {}
    for index, output in enumerate(response.outputs):
        assert not (raw and output.HasField("contents"))
        values: Any
        if output.datatype == "BYTES":
            values = [word.decode() for word in (_words(raw[index]) if raw else output.contents.bytes_contents)]
        elif raw:
            values = np.frombuffer(raw[index], dtype=NUMBERS[output.datatype])
        else:
            values = np.array(getattr(output.contents, FIELDS[output.datatype]), dtype=NUMBERS[output.datatype])
        found[output.name] = np.array(values).reshape(tuple(output.shape))
    return found


def _words(raw: bytes) -> list[bytes]:
    words = []
    while raw:
        end = 4 + int.from_bytes(raw[:4], "little")
        assert end <= len(raw)
        words.append(raw[4:end])
        raw = raw[end:]
    return words


def padded(rows: Sequence[Sequence[int]], filler: int = 0) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows of ids as one matrix, padded behind, and its attention mask."""
    longest = max(map(len, rows))
    ids = np.array([[*row, *[filler] * (longest - len(row))] for row in rows])
    mask = np.array([[1] * len(row) + [0] * (longest - len(row)) for row in rows])
    return ids, mask
