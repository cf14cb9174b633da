"""Reads the replies of BenchmarkService. Raises InvalidReply for one that breaks the contract."""

from __future__ import annotations

from collections.abc import Callable

from bertscope.errors import InvalidReply
from bertscope.questions.benchmark.reports import BenchmarkProgress, BenchmarkReport, StudiesSummary, StudyRow, StudyTable
from bertscope.v1 import benchmark_pb2
from bertscope.values.messages import read


def benchmark_event(message: benchmark_pb2.BenchmarkModelsResponse) -> BenchmarkProgress | BenchmarkReport | None:
    """Returns the event in a message of BenchmarkModels; None for an event that this version does not know."""
    if message.HasField("report"):
        return _report(message.report)
    return read(BenchmarkProgress, message.progress) if message.HasField("progress") else None


class StudiesAssembler:
    """The state of one BenchmarkStudies stream: messages in, rows out, and the table at the end."""

    def __init__(self, on_progress: Callable[[BenchmarkProgress], object] | None) -> None:
        self._on_progress = on_progress
        self._rows: list[StudyRow] = []
        self._summary: StudiesSummary | None = None

    def add(self, message: benchmark_pb2.BenchmarkStudiesResponse) -> StudyRow | None:
        """Processes one message and returns its row, if it has one.

        Raises InvalidReply for a message that breaks the contract.
        """
        event = message.WhichOneof("event")
        if event is None:
            return None  # An event that a newer server knows and this version does not.
        if self._summary is not None:
            raise InvalidReply(f"the server sent the {event} of a benchmark after its summary")
        if event == "progress":
            if self._on_progress:
                self._on_progress(read(BenchmarkProgress, message.progress))
            return None
        if event == "summary":
            self._summary = read(StudiesSummary, message.summary)
            return None
        self._rows.append(_row(message.row))
        return self._rows[-1]

    def end(self) -> StudyTable:
        """Returns all rows. Raises InvalidReply if the stream ended before its summary."""
        if self._summary is None:
            raise InvalidReply(f"the stream ended early: {len(self._rows)} systems and no summary")
        return StudyTable(studies=tuple(self._rows), summary=self._summary)


def _report(message: benchmark_pb2.BenchmarkReport) -> BenchmarkReport:
    report = read(BenchmarkReport, message)
    if report.baseline not in {model.name for model in report.models}:
        raise InvalidReply(f"the server sent a report whose baseline {report.baseline!r} is not among its models")
    return report


def _row(message: benchmark_pb2.StudyRow) -> StudyRow:
    if message.HasField("measured") == bool(message.not_measured):
        raise InvalidReply(f"the server sent {message.published.system!r} with both or neither of a measurement and a reason")
    return read(StudyRow, message)
