"""The method BenchmarkStudies of BenchmarkService."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Hashable, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass, replace

from bertscope.v1 import benchmark_pb2

from bertscope_service.api.benchmark_plan import Resources
from bertscope_service.api.benchmark_reports import load_warnings, render_model_report, render_progress
from bertscope_service.api.benchmark_requests import parse_measurement
from bertscope_service.api.field_checks import check_fields
from bertscope_service.api.intervals import check_draws
from bertscope_service.api.progress import progress_of
from bertscope_service.api.provenance import parse_runtime
from bertscope_service.benchmark.build import Builder
from bertscope_service.benchmark.inputs import Measurement
from bertscope_service.benchmark.measure import Measured
from bertscope_service.benchmark.studies import Row, Studies
from bertscope_service.benchmark.systems import System, choose_systems
from bertscope_service.encoders.base import FLOAT32
from bertscope_service.errors import InvalidArgument
from bertscope_service.models.loading import choose_device
from bertscope_service.models.precisions import usual_precision

MAX_TOKENS = 512
"""Maximum number of tokens, the same for all shapes."""

Response = benchmark_pb2.BenchmarkStudiesResponse


@dataclass(frozen=True, slots=True)
class StudiesQuery:
    """A BenchmarkStudies request; runtime is "torch", "onnx" or "auto"."""

    systems: tuple[System, ...]
    measurement: Measurement
    runtime: str


async def run_studies(request: benchmark_pb2.BenchmarkStudiesRequest, resources: Resources) -> AsyncGenerator[Response, None]:
    """Measures published systems. Yields progress and rows when they are ready, then a summary. Raises InvalidArgument."""
    began, found, settings = time.monotonic(), list[Measured](), resources.settings
    await asyncio.to_thread(check_fields, request, resources.backend.limits)
    query = parse_studies(request, settings.runtime)
    device = await asyncio.to_thread(choose_device, settings.device)
    precision = usual_precision(device) if settings.precision == "auto" else settings.precision
    # Runs of unequal precision are not raced.
    runtime = "torch" if query.runtime == "auto" and precision not in FLOAT32 else query.runtime
    builder = Builder(device, precision, resources.read)
    studies = Studies(
        query.systems, query.measurement, runtime, resources.backend.engine, builder.build, building=resources.building
    )

    async def work(report: Callable[[Response], None]) -> None:
        def deliver(row: Row) -> None:
            if row.comparison is not None:
                found.append(row.comparison.measured)
            report(render_row(row))

        if resources.alone.locked():
            report(render_study_progress("waiting for another benchmark of the studies", 0.0))
        async with resources.alone:
            await studies.run(lambda stage, done: report(render_study_progress(stage, done)), deliver)

    async with aclosing(progress_of(work, kind_of)) as reports:
        async for response in reports:
            yield response
    yield render_studies_summary(found, time.monotonic() - began)


def kind_of(response: Response) -> Hashable:
    """Returns a message's stage, of which only the newest message is kept; every row is kept."""
    return response.progress.stage if response.HasField("progress") else response.row.published.system


def parse_studies(request: benchmark_pb2.BenchmarkStudiesRequest, runtime: str) -> StudiesQuery:
    """Converts the request; `runtime` is the server's own. Raises InvalidArgument."""
    if request.measurement.texts:
        field = "measurement.texts"
        message = f"{field} can't be read: the systems are shapes without a vocabulary; give lengths instead"
        raise InvalidArgument(field, message, "NO_TOKENIZER")
    measurement = parse_measurement(request.measurement, MAX_TOKENS)
    check_draws(measurement.bootstrap, 1, "measurement.bootstrap")
    systems = choose_systems(request.systems, heavy=request.heavy)
    return StudiesQuery(systems, measurement, parse_runtime(request.runtime, runtime))


def render_study_progress(stage: str, done: float) -> Response:
    return Response(progress=render_progress(stage, done))


def render_row(row: Row) -> Response:
    """Renders one system; the message keeps none of its models in memory."""
    published = benchmark_pb2.Published(**asdict(row.system.published))
    message = benchmark_pb2.StudyRow(published=published, not_measured=row.not_measured, built=row.built)
    found, recipe = row.comparison, row.system.recipe
    if recipe is not None:
        message.baseline = recipe.baseline
    if found is not None:
        of_baseline, of_model = found.measured.models
        message.measured.CopyFrom(render_model_report(found.model, found.baseline, of_model))
        message.baseline_measured.CopyFrom(render_model_report(found.baseline, found.baseline, of_baseline))
    return Response(row=message)


def render_studies_summary(found: Sequence[Measured], seconds: float) -> Response:
    """Renders the machine and the disturbances of all measurements; the machine is left out if there were none."""
    waited, refused = sum(one.waited for one in found), sum(one.refused for one in found)
    summary = benchmark_pb2.StudiesSummary(
        disturbances=benchmark_pb2.Disturbances(waited=waited, refused=refused), seconds=seconds
    )
    if found:
        measured = sum(one.seconds for one in found)
        load = sum(one.seconds * one.machine.other_load for one in found) / measured if measured else 0.0
        machine = replace(found[-1].machine, other_load=load)
        summary.machine.CopyFrom(benchmark_pb2.Machine(**asdict(machine)))
        summary.warnings.extend(load_warnings(machine, cut_short=any(one.cut_short for one in found)))
    return Response(summary=summary)
