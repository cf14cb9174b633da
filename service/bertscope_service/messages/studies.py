"""Requests and replies of BenchmarkStudies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bertscope.v1 import benchmark_pb2

from bertscope_service.benchmarks.published import Published
from bertscope_service.benchmarks.studies import Row
from bertscope_service.benchmarks.systems import System, choose_systems
from bertscope_service.errors import InvalidArgument
from bertscope_service.jobs.benchmark import Measured, Measurement
from bertscope_service.messages.ablation import check_draws
from bertscope_service.messages.benchmark import parse_measurement, render_machine, render_model_report, render_progress
from bertscope_service.messages.common import parse_runtime
from bertscope_service.messages.limits import RequestLimits

MAX_TOKENS = 512
"""All shapes read so many."""

Response = benchmark_pb2.BenchmarkStudiesResponse


@dataclass(frozen=True, slots=True)
class StudiesQuery:
    """A BenchmarkStudies request; runtime is "torch", "onnx" or "auto"."""

    systems: tuple[System, ...]
    measurement: Measurement
    runtime: str


def parse_studies(request: benchmark_pb2.BenchmarkStudiesRequest, limits: RequestLimits, runtime: str) -> StudiesQuery:
    """`runtime` is the server's own. Raises InvalidArgument."""
    if request.measurement.texts:
        field = "measurement.texts"
        message = f"{field} can't be read: the systems are shapes without a vocabulary; give lengths instead"
        raise InvalidArgument(field, message, "NO_TOKENIZER")
    measurement = parse_measurement(request.measurement, MAX_TOKENS, limits)
    check_draws(measurement.bootstrap, 1, "measurement.bootstrap")
    systems = choose_systems(request.systems, heavy=request.heavy)
    return StudiesQuery(systems, measurement, parse_runtime(request.runtime, runtime))


def render_study_progress(stage: str, done: float) -> Response:
    return Response(progress=render_progress(stage, done))


def render_row(row: Row) -> Response:
    """One system; holds nothing of its models."""
    message = benchmark_pb2.StudyRow(published=_published(row.system.published), not_measured=row.not_measured, built=row.built)
    found, recipe = row.comparison, row.system.recipe
    if recipe is not None:
        message.baseline = recipe.baseline
    if found is not None:
        of_baseline, of_model = found.measured.models
        message.measured.CopyFrom(render_model_report(found.model, found.baseline, of_model))
        message.baseline_measured.CopyFrom(render_model_report(found.baseline, found.baseline, of_baseline))
    return Response(row=message)


def _published(figures: Published) -> benchmark_pb2.Published:
    return benchmark_pb2.Published(
        system=figures.system,
        technique=figures.technique,
        compression=figures.compression,
        performance=figures.performance,
        speedup=figures.speedup,
        relative_to=figures.relative_to,
        evaluated_on=figures.evaluated_on,
    )


def render_studies_summary(found: Sequence[Measured], seconds: float) -> Response:
    """What all measurements were made on; the machine is left out if there were none."""
    waited, refused = sum(one.waited for one in found), sum(one.refused for one in found)
    summary = benchmark_pb2.StudiesSummary(
        disturbances=benchmark_pb2.Disturbances(waited=waited, refused=refused), seconds=seconds
    )
    if found:
        measured = sum(one.seconds for one in found)
        load = sum(one.seconds * one.machine.other_load for one in found) / measured if measured else 0.0
        summary.machine.CopyFrom(render_machine(replace(found[-1].machine, other_load=load)))
    return Response(summary=summary)
