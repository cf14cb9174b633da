"""Builds the requests of BenchmarkService, and reads its replies. Raises InvalidReply for one that breaks the contract."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import SupportsIndex

from bertscope.errors import InvalidReply, invalid_argument
from bertscope.questions.ablation.objectives import Divergence, Objective
from bertscope.questions.ablation.requests import objective_message
from bertscope.questions.benchmark.reports import BenchmarkProgress, BenchmarkReport, StudiesSummary, StudyRow, StudyTable
from bertscope.v1 import ablation_pb2, benchmark_pb2
from bertscope.values import validation
from bertscope.values.messages import Numbers, read
from bertscope.values.models import Model, model_name
from bertscope.values.requests import request_of

Texts = str | Iterable[str]
ModelNames = str | Model | Iterable[str | Model]
"""One model, or many."""


@dataclass(frozen=True)
class Measuring:
    """The parameters of speed measurements, as the caller gave them; see `Client.benchmark_models`."""

    lengths: Numbers | None
    texts: Texts | None
    batch_sizes: Numbers | None
    min_runs: SupportsIndex | None
    min_seconds: float | None
    max_seconds: float | None
    others: str
    resamples: SupportsIndex | None
    seed: SupportsIndex
    confidence: float | None

    def message(self) -> benchmark_pb2.Measurement:
        """Returns the parameters as a message."""
        if self.lengths is not None and self.texts is not None:
            raise invalid_argument("lengths", "must be left out with texts: they have their own")
        return request_of(
            benchmark_pb2.Measurement,
            lengths=self.lengths,
            texts=self.texts,
            batch_sizes=self.batch_sizes,
            min_runs=self.min_runs,
            min_seconds=self.min_seconds,
            max_seconds=self.max_seconds,
            bootstrap=request_of(ablation_pb2.Bootstrap, resamples=self.resamples, seed=self.seed, confidence=self.confidence),
            others=self.others,
        )


def checked_objective(
    objective: Objective | None, agreement_texts: Texts | None, top_k: SupportsIndex | None
) -> ablation_pb2.Objective | None:
    """Returns the message of what scores models, beside texts on which they are compared."""
    if top_k is not None and agreement_texts is None:
        raise invalid_argument("top_k", "goes with agreement_texts: it is the k of the top-k agreement")
    if isinstance(objective, Divergence):
        raise invalid_argument("objective", "must not be a Divergence: agreement_texts measure how far predictions moved")
    return None if objective is None else objective_message(objective)


def model_names(models: ModelNames) -> list[str]:
    """Returns the names of models, or of one."""
    # A Model is not iterable, and a string is one name.
    asked = [models] if isinstance(models, (str, Model)) else validation.many("models", models, "names of models")
    names = [_model_name(f"models[{index}]", model) for index, model in enumerate(asked)]
    if not names:
        raise invalid_argument("models", "is empty: say which models to measure")
    return names


def _model_name(field: str, model: object) -> str:
    if isinstance(model, (str, Model)):
        return model_name(field, model)
    raise invalid_argument(field, f"must be the name of a model, not {type(model).__name__}")


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
