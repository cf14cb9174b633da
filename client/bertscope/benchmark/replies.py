"""Reads the replies of BenchmarkService. Raises InvalidReply for one that breaks the contract."""

from __future__ import annotations

from collections.abc import Callable

from bertscope import _messages as wire
from bertscope._messages import applied_steps
from bertscope.ablation.assembly import interval_method, no_interval, read_bootstrap
from bertscope.benchmark.reports import (
    Agreement,
    BenchmarkProgress,
    BenchmarkReport,
    Disturbances,
    Machine,
    ModelReport,
    Ratio,
    Score,
    Speed,
)
from bertscope.benchmark.studies import Published, StudiesSummary, StudyRow, StudyTable
from bertscope.errors import InvalidReply
from bertscope.v1 import ablation_pb2, benchmark_pb2


def benchmark_event(message: benchmark_pb2.BenchmarkModelsResponse) -> BenchmarkProgress | BenchmarkReport | None:
    """Returns the event in a message of BenchmarkModels; None for an event that this version does not know."""
    if message.HasField("report"):
        return _report(message.report)
    return _progress(message.progress) if message.HasField("progress") else None


def reported(event: BenchmarkProgress | BenchmarkReport | None) -> BenchmarkReport:
    """Returns the report in the last event of BenchmarkModels. Raises InvalidReply if it is another event."""
    if not isinstance(event, BenchmarkReport):
        raise InvalidReply("the server ended the benchmark without a report")
    return event


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
    return BenchmarkProgress(stage=message.stage, done=message.done)


def _report(message: benchmark_pb2.BenchmarkReport) -> BenchmarkReport:
    models = tuple(map(_model, message.models))
    if message.baseline not in {model.name for model in models}:
        raise InvalidReply(f"the server sent a report whose baseline {message.baseline!r} is not among its models")
    return BenchmarkReport(
        machine=_machine(message.machine),
        baseline=message.baseline,
        models=models,
        disturbances=_disturbances(message.disturbances),
        seconds=message.seconds,
        cut_short=message.cut_short,
        references=tuple(map(_model, message.references)),
        warnings=tuple(message.warnings),
        bootstrap=read_bootstrap(message.bootstrap) if message.HasField("bootstrap") else None,
    )


def _machine(message: benchmark_pb2.Machine) -> Machine:
    return Machine(
        cpu=message.cpu,
        cores=message.cores,
        cpu_flags=tuple(message.cpu_flags),
        gpus=tuple(message.gpus),
        threads=message.threads,
        memory_bytes=message.memory_bytes,
        system=message.system,
        other_load=message.other_load,
    )


def _model(message: benchmark_pb2.ModelReport) -> ModelReport:
    return ModelReport(
        provenance=wire.provenance(message.provenance),
        parameters=message.parameters,
        nonzero_parameters=message.nonzero_parameters if message.HasField("nonzero_parameters") else None,
        weight_bytes=message.weight_bytes,
        resident_bytes=message.resident_bytes,
        working_bytes=message.working_bytes,
        compression=message.compression,
        speeds=tuple(map(_speed, message.speeds)),
        agreement=_agreement(message.agreement) if message.HasField("agreement") else None,
        scores=tuple(map(_score, message.scores)),
        steps=applied_steps(message.steps),
        compared_with=wire.provenance(message.compared_with) if message.HasField("compared_with") else None,
        copied=message.copied,
        loaded_runtime=wire.runtime(message.loaded_runtime),
        loaded_precision=wire.precision(message.loaded_precision),
    )


def _speed(message: benchmark_pb2.Speed) -> Speed:
    return Speed(
        length=message.length,
        p50_seconds=message.p50_seconds,
        p90_seconds=message.p90_seconds,
        p95_seconds=message.p95_seconds,
        p99_seconds=message.p99_seconds,
        runs=message.runs,
        best_batch=message.best_batch,
        throughput=message.throughput,
        batches=message.batches,
        latency_speedup=_ratio(message.latency_speedup) if message.HasField("latency_speedup") else None,
        throughput_speedup=_ratio(message.throughput_speedup) if message.HasField("throughput_speedup") else None,
    )


def _ratio(message: benchmark_pb2.Ratio) -> Ratio:
    verdict = wire.enum_name(benchmark_pb2.Ratio.Verdict, message.verdict, "VERDICT_")
    return Ratio(
        value=message.value,
        low=message.low,
        high=message.high,
        verdict=verdict,
        caveat=message.caveat,
        interval_method=interval_method(message.interval_method),
        no_interval=no_interval(message.no_interval),
    )


def _agreement(message: benchmark_pb2.Agreement) -> Agreement:
    return Agreement(
        top_1=message.top_1,
        top_k=message.top_k,
        k=message.k,
        divergence=message.divergence,
        divergence_low=message.divergence_low,
        divergence_high=message.divergence_high,
        places=message.places,
    )


def _score(message: benchmark_pb2.Score) -> Score:
    return Score(
        metric=wire.enum_name(ablation_pb2.Metric, message.metric, "METRIC_"),
        value=message.value,
        retained=_ratio(message.retained) if message.HasField("retained") else None,
    )


def _disturbances(message: benchmark_pb2.Disturbances) -> Disturbances:
    return Disturbances(waited=message.waited, refused=message.refused)


def _row(message: benchmark_pb2.StudyRow) -> StudyRow:
    if message.HasField("measured") == bool(message.not_measured):
        raise InvalidReply(f"the server sent {message.published.system!r} with both or neither of a measurement and a reason")
    return StudyRow(
        published=_published(message.published),
        not_measured=message.not_measured,
        built=message.built,
        measured=_model(message.measured) if message.HasField("measured") else None,
        baseline=message.baseline,
        baseline_measured=_model(message.baseline_measured) if message.HasField("baseline_measured") else None,
    )


def _published(message: benchmark_pb2.Published) -> Published:
    return Published(
        system=message.system,
        technique=message.technique,
        compression=message.compression,
        performance=message.performance,
        speedup=message.speedup,
        relative_to=message.relative_to,
        evaluated_on=message.evaluated_on,
    )


def _summary(message: benchmark_pb2.StudiesSummary) -> StudiesSummary:
    return StudiesSummary(
        machine=_machine(message.machine),
        disturbances=_disturbances(message.disturbances),
        seconds=message.seconds,
        warnings=tuple(message.warnings),
    )
