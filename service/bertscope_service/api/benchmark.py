"""The BenchmarkService."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, ExitStack, aclosing
from functools import partial
from operator import itemgetter

from bertscope.v1 import benchmark_pb2, benchmark_pb2_grpc

from bertscope_service.api.answer import Call, Context
from bertscope_service.api.benchmark_plan import (
    Plan,
    Resources,
    embeds,
    make_plan,
    require_agreement,
    require_embedding,
    subject_of,
)
from bertscope_service.api.benchmark_reports import Result, render_progress, render_report
from bertscope_service.api.benchmark_requests import parse_asked, parse_benchmark, parse_models
from bertscope_service.api.field_checks import check_fields
from bertscope_service.api.progress import progress_of
from bertscope_service.api.requirements import require_objective
from bertscope_service.api.studies import run_studies
from bertscope_service.benchmark.agreement import Agreement
from bertscope_service.benchmark.copies import ComparedModels, Copies
from bertscope_service.benchmark.losses import Score, ScoredModel, measure_agreement, measure_scores
from bertscope_service.benchmark.measure import measure
from bertscope_service.benchmark.vectors import VectorAgreement, measure_vectors
from bertscope_service.models.loaded import LoadedModel

Report = Callable[[tuple[str, float]], None]
Response = benchmark_pb2.BenchmarkModelsResponse


class BenchmarkServicer(benchmark_pb2_grpc.BenchmarkServiceServicer):
    """Serves BenchmarkService: measures models side by side, and published systems."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._backend = resources.backend

    def BenchmarkStudies(
        self, request: benchmark_pb2.BenchmarkStudiesRequest, context: Context
    ) -> AsyncIterator[benchmark_pb2.BenchmarkStudiesResponse]:
        return run_studies(request, self._resources)

    async def BenchmarkModels(self, request: benchmark_pb2.BenchmarkModelsRequest, context: Context) -> AsyncIterator[Response]:
        began, resources = time.monotonic(), self._resources
        await asyncio.to_thread(check_fields, request, self._backend.limits)
        names, baseline = parse_models(request)
        asked = parse_asked(request)
        with ExitStack() as held:
            models = [held.enter_context(self._backend.registry.use(name)) for name in names]
            plan = await self._plan(request, context, models, baseline)
            found: list[Result] = []

            async def work(report: Report) -> None:
                copies = Copies(
                    models,
                    baseline,
                    asked,
                    resources.read,
                    resources.building,
                    resources.settings.benchmark_memory_bytes,
                    lambda stage: report((stage, 0.0)),
                )
                copies.check()
                async with AsyncExitStack() as alone:
                    if copies.needed():
                        if resources.alone.locked():
                            report(("waiting for another benchmark that builds models", 0.0))
                        await alone.enter_async_context(resources.alone)
                    found.append(await self._run(plan, await copies.make(), context, report))

            # Closed explicitly: a client that is gone must not keep the devices until garbage collection.
            async with aclosing(progress_of(work, itemgetter(0))) as reports:
                async for stage, done in reports:
                    yield Response(progress=render_progress(stage, done))
            (result,) = found
            seconds, bootstrap = time.monotonic() - began, plan.query.measurement.bootstrap
            yield Response(report=render_report(result, baseline, seconds, bootstrap))

    async def _plan(
        self, request: benchmark_pb2.BenchmarkModelsRequest, context: Context, models: Sequence[LoadedModel], baseline: int
    ) -> Plan:
        """Checks the whole request before anything runs. Raises InvalidArgument, Unsupported."""
        max_tokens = min(model.tokenizer.max_tokens for model in models)
        call = Call.of(self._backend, models[baseline], context)
        embed = request.embed or embeds(models, baseline)
        query = await call.compute(partial(parse_benchmark, request, max_tokens, embed=embed))
        if embed:
            require_embedding(models)
        elif query.agreement_texts:
            require_agreement(models, baseline)
        for model in models:
            if query.objective is not None:
                require_objective(model, query.objective)
        return await call.compute(partial(make_plan, query, models, baseline))

    async def _run(self, plan: Plan, compared_models: ComparedModels, context: Context, report: Report) -> Result:
        """Measures speeds with the devices leased, then losses, behind all interactive calls."""
        engine, baseline, bootstrap = self._backend.engine, plan.baseline, plan.query.measurement.bootstrap
        parts = 1 + plan.losses

        def tick(number: int, stage: str, done: float) -> None:
            report((stage, (number + done) / parts))

        runs = [compared_model.runs for compared_model in compared_models.every]
        measured = await measure(
            [subject_of(compared.runs, compared.loaded, embed=plan.query.embed) for compared in compared_models.every],
            plan.query.measurement,
            engine,
            partial(tick, 0),
            compared=[compared_model.compared for compared_model in compared_models.every],
            inputs=plan.inputs_with(len(runs) - compared_models.models),
        )
        contenders = [
            ScoredModel(model.encoder, Call.of(self._backend, model, context).bulk())
            for model in runs[: compared_models.models]
        ]
        agreements: Sequence[Agreement | None] = [None] * len(contenders)
        vectors: Sequence[VectorAgreement | None] = [None] * len(contenders)
        scores: Sequence[Sequence[Score]] = [()] * len(contenders)
        if plan.questions:
            agreements = await measure_agreement(
                contenders, baseline, plan.questions, plan.shared, plan.top_k, bootstrap, partial(tick, 1, "agreement")
            )
        if plan.vectors:
            vectors = await measure_vectors(
                contenders, baseline, plan.vectors, plan.top_k, bootstrap, partial(tick, 1, "agreement")
            )
        if plan.objectives:
            scores = await measure_scores(
                contenders, baseline, plan.objectives, bootstrap, partial(tick, plan.losses, "scores")
            )
        return Result(compared_models, measured, agreements, vectors, scores)
