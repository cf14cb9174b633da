"""BenchmarkStudies, a method of BenchmarkService."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import aclosing
from typing import Any

import grpc
from bertscope.v1 import benchmark_pb2, benchmark_pb2_grpc

from bertscope_service.benchmarks.build import Builder
from bertscope_service.benchmarks.studies import Row, Studies
from bertscope_service.jobs.benchmark import Measured
from bertscope_service.loaded import LoadedModel, LoadSpec
from bertscope_service.loading import choose_device
from bertscope_service.messages.studies import (
    Response,
    parse_studies,
    render_row,
    render_studies_summary,
    render_study_progress,
)
from bertscope_service.registry import Report
from bertscope_service.servicers.base import Backend
from bertscope_service.servicers.progress import progress_of
from bertscope_service.settings import Settings

Read = Callable[[LoadSpec, Report], LoadedModel]


class StudiesServicer(benchmark_pb2_grpc.BenchmarkServiceServicer):
    """Measures published systems."""

    def __init__(self, backend: Backend, settings: Settings, read: Read) -> None:
        """`read` reads a model from its source, as the registry's does."""
        self._backend = backend
        self._settings = settings
        self._read = read
        # Models that one call builds would disturb what another measures, and memory is meant for two.
        self._one_at_a_time = asyncio.Lock()

    async def BenchmarkStudies(
        self, request: benchmark_pb2.BenchmarkStudiesRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> AsyncIterator[Response]:
        began, found = time.monotonic(), list[Measured]()
        query = parse_studies(request, self._backend.limits, self._settings.runtime)
        precision = "fp32" if self._settings.precision == "auto" else self._settings.precision
        builder = Builder(choose_device(self._settings.device), precision, self._read)
        studies = Studies(query.systems, query.measurement, query.runtime, self._backend.engine, builder.build)

        async def work(report: Callable[[Response], None]) -> None:
            def deliver(row: Row) -> None:
                if row.comparison is not None:
                    found.append(row.comparison.measured)
                report(render_row(row))

            if self._one_at_a_time.locked():
                report(render_study_progress("waiting for another benchmark of the studies", 0.0))
            async with self._one_at_a_time:
                await studies.run(lambda stage, done: report(render_study_progress(stage, done)), deliver)

        async with aclosing(progress_of(work, kind_of)) as news:
            async for response in news:
                yield response
        yield render_studies_summary(found, time.monotonic() - began)


def kind_of(response: Response) -> Hashable:
    """What only the newest message is kept of: a stage. Rows all stay."""
    return response.progress.stage if response.HasField("progress") else response.row.published.system
