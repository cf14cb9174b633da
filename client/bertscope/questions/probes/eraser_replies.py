"""Reads the stream of a TrainEraser call."""

from __future__ import annotations

import numpy as np

from bertscope.errors import InvalidReply
from bertscope.questions.probes.erasers import Eraser, LayerEraser, LinearEraser
from bertscope.questions.probes.probes import ProbePart, ProbeProgress
from bertscope.v1 import representation_eraser_pb2 as eraser_pb2
from bertscope.v1 import site_pb2
from bertscope.v1.representation_eraser_pb2 import EraserReport, TrainEraserRequest, TrainEraserResponse
from bertscope.values import messages as wire
from bertscope.values.tensors import matrix, vector


class EraserAssembler:
    """The state of one TrainEraser stream: messages in, progress out, and the result at the end."""

    def __init__(self, request: TrainEraserRequest) -> None:
        self._labels = tuple(request.labels)
        self._layers: list[eraser_pb2.LayerEraser] = []

    def add(self, message: TrainEraserResponse) -> ProbeProgress | Eraser | None:
        """Processes one message. Returns its progress; the result at the end. Raises InvalidReply."""
        event = message.WhichOneof("event")
        if event == "progress":
            return wire.read(ProbeProgress, message.progress)
        if event == "eraser":
            self._layers.append(message.eraser)
        return self._result(message.report) if event == "report" else None

    def _result(self, report: EraserReport) -> Eraser:
        if not report.test.spans or not self._layers or report.majority_label >= len(self._labels):
            raise InvalidReply("the server sent a report of erasers without scores")
        return wire.read(
            Eraser,
            report,
            layers={one.layer: _layer(one, report) for one in self._layers},
            labels=self._labels,
            train=wire.read(ProbePart, report.train),
            dev=wire.read(ProbePart, report.dev) if report.HasField("dev") else None,
            test=wire.read(ProbePart, report.test),
            majority_label=self._labels[report.majority_label],
        )


def _layer(message: eraser_pb2.LayerEraser, report: EraserReport) -> LayerEraser:
    own, random = (_map(one, message.rank, report.hidden_size) for one in (message.projection, message.random))
    return LayerEraser(
        own.left,
        own.right,
        own.mean,
        layer=message.layer,
        accuracy_before=message.correct_before / report.test.spans,
        accuracy_after=message.correct_after / report.test.spans,
        accuracy_random=message.correct_random / report.test.spans,
        random=random,
    )


def _map(message: site_pb2.Projection, rank: int, size: int) -> LinearEraser:
    """Returns a map. Raises InvalidReply for one of another rank or size."""
    if not rank:
        return LinearEraser(np.zeros((size, 0), np.float32), np.zeros((0, size), np.float32), np.zeros(size, np.float32))
    found = LinearEraser(matrix(message.left), matrix(message.right), vector(message.mean))
    shapes = found.left.shape, found.right.shape, found.mean.shape
    if shapes != ((size, rank), (rank, size), (size,)):
        raise InvalidReply(f"the server sent a map of rank {rank} of {size} dimensions with shapes {shapes}")
    return found
