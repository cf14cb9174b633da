"""Assembles an Inspect stream. Pure: messages in, events and the whole out."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from bertscope.errors import InvalidReply
from bertscope.questions.inspection.results import InspectedMaps, Inspection, InspectionDistances, InspectionStart, ViewedMaps
from bertscope.rpc.assembly import Coverage
from bertscope.v1 import inspection_pb2
from bertscope.values.mask_predictions import read_mask
from bertscope.values.messages import enum_name, read, texts_of
from bertscope.values.tensors import matrix

Event = InspectionStart | InspectionDistances | InspectedMaps

DTYPES: dict[int, np.dtype[Any]] = {
    inspection_pb2.MAP_FORMAT_UINT8: np.dtype(np.uint8),
    inspection_pb2.MAP_FORMAT_FLOAT16: np.dtype("<f2"),
    inspection_pb2.MAP_FORMAT_FLOAT32: np.dtype("<f4"),
}


class InspectionAssembler:
    """The state of one stream."""

    def __init__(self, request: inspection_pb2.InspectRequest) -> None:
        self._request = request
        self._start: InspectionStart | None = None
        self._distances: InspectionDistances | None = None
        self._cells: list[npt.NDArray[Any]] = []
        self._coverage: list[Coverage] = []
        self._maps: dict[int, InspectedMaps] = {}

    def add(self, message: inspection_pb2.InspectResponse) -> Event | None:
        """Processes one message and returns the event that it completes, if any.

        Raises InvalidReply for a message that breaks the contract.
        """
        kind = message.WhichOneof("event")
        if kind is None:
            return None  # An event that a newer server knows and this version does not.
        if (kind == "header") is (self._start is not None):
            raise InvalidReply(f"the server sent a {kind} {'twice' if self._start else 'before the header'}")
        if kind == "header":
            return self._begin(message.header)
        return self._add_distances(message.distances) if kind == "distances" else self._add_chunk(message.chunk)

    def end(self) -> Inspection:
        """Returns the whole. Raises InvalidReply if the stream ended before it was complete."""
        start = self._start
        if start is None or len(self._maps) < len(self._cells) or (start.compared and self._distances is None):
            raise InvalidReply("the stream ended early: the server did not send all that it announced")
        return Inspection(start, self._distances, tuple(self._maps[index] for index in sorted(self._maps)))

    def _begin(self, header: inspection_pb2.InspectionHeader) -> InspectionStart:
        if len(header.maps) != len(self._request.maps):
            raise InvalidReply(f"the server announced {len(header.maps)} of {len(self._request.maps)} kinds of maps")
        start = read(
            InspectionStart,
            header,
            **texts_of(self._request.input),
            masks=tuple(map(read_mask, header.masks)),
            untouched_masks=tuple(map(read_mask, header.untouched_masks)),
            views=tuple(map(_view, header.maps)),
        )
        if len(start.untouched_masks) != (len(start.masks) if start.compared else 0):
            raise InvalidReply(f"the server sent {len(start.untouched_masks)} untouched masks beside {len(start.masks)}")
        self._cells = [np.empty(view.shape, DTYPES[form.format]) for view, form in zip(start.views, header.maps, strict=True)]
        self._coverage = [Coverage(cells.nbytes) for cells in self._cells]
        self._start = start
        return start

    def _add_distances(self, message: inspection_pb2.InspectionDistances) -> InspectionDistances:
        moved = matrix(message.moved)
        divergence = matrix(message.divergence) if message.HasField("divergence") else None
        expected = (self._start.layers, self._start.heads) if self._start else ()
        if self._distances is not None or any(one is not None and one.shape != expected for one in (moved, divergence)):
            raise InvalidReply(f"the server sent distances twice, or not of {expected} heads")
        self._distances = InspectionDistances(moved, divergence)
        return self._distances

    def _add_chunk(self, chunk: inspection_pb2.InspectionChunk) -> InspectedMaps | None:
        index = chunk.map_index
        if index >= len(self._cells) or self._start is None:
            raise InvalidReply(f"the server sent bytes of maps {index}, which it did not announce")
        data = chunk.data  # protobuf makes a copy each time
        end = chunk.offset + len(data)
        self._coverage[index].add(chunk.offset, end)
        self._cells[index].reshape(-1).view(np.uint8)[chunk.offset : end] = np.frombuffer(data, np.uint8)
        if not self._coverage[index].complete:
            return None
        self._maps[index] = InspectedMaps(index, self._start.views[index], self._cells[index])
        return self._maps[index]


def _view(form: inspection_pb2.InspectedMaps) -> ViewedMaps:
    if form.format not in DTYPES:
        raise InvalidReply(f"the server announced maps of the unknown format {form.format}")
    heads = tuple((entry.layer, head) for entry in form.heads for head in entry.heads)
    shape = (len(heads), form.rows, form.columns)
    if not math.prod(shape):
        raise InvalidReply(f"the server announced maps of shape {list(shape)}")
    return ViewedMaps(
        heads=heads,
        shape=shape,
        cell_size=form.cell_size,
        rows=(form.row_range.start, form.row_range.end),
        columns=(form.column_range.start, form.column_range.end),
        format=enum_name(inspection_pb2.MapFormat, form.format),
        untouched=form.untouched,
    )
