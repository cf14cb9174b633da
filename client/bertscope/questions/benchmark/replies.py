"""Reads the replies of BenchmarkService. Raises InvalidReply for one that breaks the contract."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bertscope.errors import InvalidReply
from bertscope.questions.ablation.assembly import interval_method, no_interval
from bertscope.questions.ablation.sweeps import Bootstrap
from bertscope.questions.benchmark.reports import (
    Agreement,
    BenchmarkProgress,
    BenchmarkReport,
    Disturbances,
    Machine,
    ModelReport,
    Published,
    Ratio,
    Score,
    Speed,
    StudiesSummary,
    StudyRow,
    StudyTable,
    VectorAgreement,
)
from bertscope.v1 import benchmark_pb2
from bertscope.values import messages as wire
from bertscope.values.messages import applied_steps


def benchmark_event(message: benchmark_pb2.BenchmarkModelsResponse) -> BenchmarkProgress | BenchmarkReport | None:
    """Returns the event in a message of BenchmarkModels; None for an event that this version does not know."""
    if message.HasField("report"):
        return _report(message.report)
    return _progress(message.progress) if message.HasField("progress") else None


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
                self._on_progress(_progress(message.progress))
            return None
        if event == "summary":
            self._summary = _summary(message.summary)
            return None
        self._rows.append(_row(message.row))
        return self._rows[-1]

    def end(self) -> StudyTable:
        """Returns all rows. Raises InvalidReply if the stream ended before its summary."""
        if self._summary is None:
            raise InvalidReply(f"the stream ended early: {len(self._rows)} systems and no summary")
        return StudyTable(studies=tuple(self._rows), summary=self._summary)


def _progress(message: benchmark_pb2.BenchmarkProgress) -> BenchmarkProgress:
    return wire.read(BenchmarkProgress, message)


def _report(message: benchmark_pb2.BenchmarkReport) -> BenchmarkReport:
    models = tuple(map(_model, message.models))
    if message.baseline not in {model.name for model in models}:
        raise InvalidReply(f"the server sent a report whose baseline {message.baseline!r} is not among its models")
    return wire.read(
        BenchmarkReport,
        message,
        machine=wire.read(Machine, message.machine),
        models=models,
        disturbances=wire.read(Disturbances, message.disturbances),
        references=tuple(map(_model, message.references)),
        bootstrap=wire.read(Bootstrap, message.bootstrap) if message.HasField("bootstrap") else None,
    )


def _model(message: benchmark_pb2.ModelReport) -> ModelReport:
    return wire.read(
        ModelReport,
        message,
        provenance=wire.provenance(message.provenance),
        speeds=tuple(map(_speed, message.speeds)),
        agreement=wire.read(Agreement, message.agreement) if message.HasField("agreement") else None,
        scores=tuple(map(_score, message.scores)),
        steps=applied_steps(message.steps),
        compared_with=wire.provenance(message.compared_with) if message.HasField("compared_with") else None,
        loaded_runtime=wire.runtime(message.loaded_runtime),
        loaded_precision=wire.precision(message.loaded_precision),
        vectors=wire.read(VectorAgreement, message.vectors) if message.HasField("vectors") else None,
    )


def _speed(message: benchmark_pb2.Speed) -> Speed:
    latency, throughput = _ratio(message, "latency_speedup"), _ratio(message, "throughput_speedup")
    return wire.read(Speed, message, latency_speedup=latency, throughput_speedup=throughput)


def _score(message: benchmark_pb2.Score) -> Score:
    return wire.read(Score, message, retained=_ratio(message, "retained"))


def _ratio(owner: benchmark_pb2.Speed | benchmark_pb2.Score, field: Any) -> Ratio | None:
    """Returns the ratio in a field; None if it is not set."""
    message: benchmark_pb2.Ratio = getattr(owner, field)
    return (
        wire.read(
            Ratio,
            message,
            interval_method=interval_method(message.interval_method),
            no_interval=no_interval(message.no_interval),
        )
        if owner.HasField(field)
        else None
    )


def _row(message: benchmark_pb2.StudyRow) -> StudyRow:
    if message.HasField("measured") == bool(message.not_measured):
        raise InvalidReply(f"the server sent {message.published.system!r} with both or neither of a measurement and a reason")
    return wire.read(
        StudyRow,
        message,
        published=wire.read(Published, message.published),
        measured=_model(message.measured) if message.HasField("measured") else None,
        baseline_measured=_model(message.baseline_measured) if message.HasField("baseline_measured") else None,
    )


def _summary(message: benchmark_pb2.StudiesSummary) -> StudiesSummary:
    machine, disturbances = wire.read(Machine, message.machine), wire.read(Disturbances, message.disturbances)
    return wire.read(StudiesSummary, message, machine=machine, disturbances=disturbances)
