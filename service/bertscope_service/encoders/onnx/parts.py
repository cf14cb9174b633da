"""Reads the graphs of an export, and cuts them into parts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx
from onnx.utils import Extractor

from bertscope_service.encoders.onnx.sessions import Session, SessionSettings, unreadable
from bertscope_service.encoders.onnx.values import FAST, WEIGHTS


class Parts:
    """The sessions of parts of graphs, each made once, when it is first needed."""

    def __init__(self, graphs: Mapping[str, onnx.ModelProto], settings: SessionSettings) -> None:
        self._graphs = graphs
        self._settings = settings
        self._made: dict[tuple[str, tuple[str, ...]], Session] = {}
        self.bytes = 0

    def graph(self, name: str) -> onnx.ModelProto:
        """Returns a whole graph."""
        return self._graphs[name]

    def get(self, graph: str, inputs: Sequence[str], outputs: Sequence[str]) -> Session:
        """Returns the part that computes some values from others."""
        key = graph, (*inputs, "", *outputs)
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = self.make(graph, inputs, outputs)
        return found

    def make(self, graph: str, inputs: Sequence[str], outputs: Sequence[str]) -> Session:
        """Makes a part. Raises FailedPrecondition if the graph has no such part, or if it can't be run."""
        try:
            part = cut(self._graphs[graph], inputs, outputs)
        except ValueError as error:
            raise unreadable(self._settings.weights / graph, error) from error
        read = {name for node in part.graph.node for name in node.input}
        for value in [value for value in part.graph.input if value.name not in read]:
            part.graph.input.remove(value)
        self.bytes += sum(length_of(tensor) for tensor in part.graph.initializer)
        # There are dozens of parts for analysis; their peak memory together would be many times the weights.
        return Session(part, self._settings, keeps_memory=graph == FAST)


def cut(model: onnx.ModelProto, inputs: Sequence[str], outputs: Sequence[str]) -> onnx.ModelProto:
    """Returns the part of a graph that computes some of its values from others. Raises ValueError if it needs more than
    these."""
    part = Extractor(model).extract_model(list(inputs), list(outputs))
    known = {*inputs, *(tensor.name for tensor in part.graph.initializer)}
    for node in part.graph.node:
        missing = [name for name in node.input if name and name not in known]
        if missing:
            raise ValueError(f"{', '.join(outputs)} can't be computed from {', '.join(inputs)} alone: {missing[0]} is missing")
        known.update(node.output)
    del part.graph.value_info[:]
    return part


def read_graph(folder: Path, name: str) -> onnx.ModelProto:
    """Reads a graph; its weights stay in the folder's weights file.

    Raises FailedPrecondition if it is missing or broken, or refers to anything but that file.
    """
    path = folder / name
    try:
        graph = onnx.load(str(path), load_external_data=False)
        weights = weights_of(folder)
        size = weights.stat().st_size
    except Exception as error:  # protobuf raises many classes for malformed files
        raise unreadable(path, error) from error
    for tensor in tensors_of(graph):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            where = {entry.key: entry.value for entry in tensor.external_data}
            if where.get("location") != WEIGHTS:
                message = f"{tensor.name} lies in {where.get('location')!r}, not in {WEIGHTS}"
                raise unreadable(path, ValueError(message))
            offset, length = where.get("offset", "0"), where.get("length", "")
            if not (offset.isdecimal() and length.isdecimal()) or int(offset) + int(length) > size:
                raise unreadable(path, ValueError(f"{WEIGHTS} ends before {tensor.name}, or it has no place there"))
            _place(tensor, weights)
    return graph


def weights_of(folder: Path) -> Path:
    """Returns the weights file of an export. In the hub's cache it is a link to a blob, and the blob itself is returned: ONNX
    Runtime rejects links out of the folder, as it should."""
    file = folder / WEIGHTS
    real, blobs = file.resolve(), folder.resolve().parent.parent / "blobs"
    return real if real.parent == blobs else file


def _place(tensor: onnx.TensorProto, file: Path) -> None:
    """Sets the name of the file in which a tensor lies."""
    for entry in tensor.external_data:
        if entry.key == "location":
            entry.value = file.name


def tensors_of(message: Any) -> Iterator[onnx.TensorProto]:
    """Yields all tensors in a message of onnx: initialisers, sparse ones, attributes, and tensors in nested graphs and
    functions."""
    if isinstance(message, onnx.TensorProto):
        yield message
        return
    for field, value in message.ListFields():
        if field.message_type is not None:
            for part in value if field.is_repeated else (value,):
                yield from tensors_of(part)


def length_of(tensor: onnx.TensorProto) -> int:
    """Returns the bytes of a tensor accepted by `read_graph`, wherever it lies."""
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        return sum(int(entry.value) for entry in tensor.external_data if entry.key == "length")
    return len(tensor.raw_data)
