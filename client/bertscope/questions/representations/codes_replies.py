"""Reads the stream of TrainCodes."""

from __future__ import annotations

import numpy as np

from bertscope._version import __version__
from bertscope.errors import InvalidArgument, InvalidReply
from bertscope.questions.representations.codes import CodesFit, SparseCodes, TrainCodesProgress
from bertscope.v1.representation_codes_pb2 import CodesChunk, TrainCodesReport, TrainCodesResponse
from bertscope.values import messages as wire


class CodesAssembler:
    """The state of one TrainCodes stream: messages in, progress out, and the codes at the end."""

    def __init__(self) -> None:
        self._report: TrainCodesReport | None = None
        self._data = bytearray()

    def add(self, message: TrainCodesResponse) -> TrainCodesProgress | SparseCodes | None:
        """Processes one message. Returns its progress; the codes, once all of them are there. Raises InvalidReply."""
        event = message.WhichOneof("event")
        if event == "progress":
            return wire.read(TrainCodesProgress, message.progress)
        if event == "report":
            self._report = message.report
            if not self._report.codes or not self._report.hidden_size:
                raise InvalidReply("the server sent a report of no codes")
        elif event == "chunk":
            return self._take(message.chunk)
        return None

    def _take(self, chunk: CodesChunk) -> SparseCodes | None:
        report = self._report
        if report is None or chunk.offset != len(self._data):
            raise InvalidReply(f"the server sent a part of codes at {chunk.offset} and not at {len(self._data)}, or no report")
        self._data += chunk.data
        codes, size = report.codes, report.hidden_size
        numbers = size + codes * (2 * size + 1)
        if len(self._data) > 4 * numbers:
            raise InvalidReply("the server sent more codes than it reported")
        return _codes(report, np.frombuffer(self._data, "<f4")) if len(self._data) == 4 * numbers else None


def _codes(report: TrainCodesReport, numbers: np.ndarray[tuple[int], np.dtype[np.float32]]) -> SparseCodes:
    codes, size = report.codes, report.hidden_size
    mean, encoder, biases, decoder = np.split(numbers, np.cumsum([size, codes * size, codes]))
    fit = wire.read(
        CodesFit,
        report,
        train_texts=report.train.texts,
        train_pieces=report.train.pieces,
        dev_texts=report.dev.texts,
        dev_pieces=report.dev.pieces,
    )
    source = wire.provenance(report.provenance)
    try:
        return SparseCodes(
            encoder.reshape(codes, size),
            biases,
            np.full(codes, report.threshold, np.float32),
            decoder.reshape(codes, size),
            mean,
            report.layer,
            source.model,
            source.weights_digest,
            fit,
            versions=dict(source.library_versions) | {"bertscope": __version__},
        )
    except InvalidArgument as error:
        raise InvalidReply(f"the server sent codes that can't be used: {error}") from error
