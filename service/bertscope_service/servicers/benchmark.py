"""BenchmarkService."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack, aclosing
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import Any

import grpc
from bertscope.v1 import benchmark_pb2

from bertscope_service.analyses.agreement import Agreement
from bertscope_service.jobs.benchmark import Measured, Subject, measure
from bertscope_service.jobs.benchmark_losses import Contender, Score, measure_agreement, measure_scores
from bertscope_service.loaded import LoadedModel
from bertscope_service.messages.benchmark import parse_benchmark, parse_models, render_progress, render_report
from bertscope_service.servicers.base import INLINE_BYTES, Caller, off_loop
from bertscope_service.servicers.benchmark_plan import Plan, make_plan, require_agreement
from bertscope_service.servicers.progress import progress_of
from bertscope_service.servicers.requirements import require_objective
from bertscope_service.servicers.studies import StudiesServicer

Context = grpc.aio.ServicerContext[Any, Any]
Report = Callable[[tuple[str, float]], None]
Response = benchmark_pb2.BenchmarkModelsResponse


@dataclass(frozen=True, slots=True)
class Result:
    """What a benchmark found; agreement and scores of each model."""

    measured: Measured
    agreements: Sequence[Agreement | None]
    scores: Sequence[Sequence[Score]]


class BenchmarkServicer(StudiesServicer):
    """Measures models side by side."""

    async def BenchmarkModels(self, request: benchmark_pb2.BenchmarkModelsRequest, context: Context) -> AsyncIterator[Response]:
        began, caller = time.monotonic(), Caller.of(context)
        names, baseline = parse_models(request)
        with ExitStack() as held:
            models = [held.enter_context(self._backend.registry.use(name)) for name in names]
            plan = await self._plan(request, models, baseline)
            found: list[Result] = []

            async def work(report: Report) -> None:
                found.append(await self._run(plan, caller, report))

            # Closed here and now: a reader that is gone must not keep the devices until a garbage collector comes.
            async with aclosing(progress_of(work, itemgetter(0))) as news:
                async for stage, done in news:
                    yield Response(progress=render_progress(stage, done))
            (result,) = found
            seconds = time.monotonic() - began
            report = render_report(models, baseline, result.measured, result.agreements, result.scores, seconds)
            yield Response(report=report)

    async def _plan(self, request: benchmark_pb2.BenchmarkModelsRequest, models: Sequence[LoadedModel], baseline: int) -> Plan:
        """Check everything before anything is run. Raises InvalidArgument, Unsupported."""
        max_tokens = min(model.tokenizer.max_tokens for model in models)
        large = request.ByteSize() > INLINE_BYTES
        query = await off_loop(lambda: parse_benchmark(request, max_tokens, self._backend.limits), large=large)
        if query.agreement_texts:
            require_agreement(models, baseline)
        for model in models:
            if query.objective is not None:
                require_objective(model, query.objective)
        return await off_loop(lambda: make_plan(query, models, baseline), large=True)

    async def _run(self, plan: Plan, caller: Caller, report: Report) -> Result:
        """The speeds with the devices leased, then what was lost, behind everybody's interactive calls."""
        engine, baseline, bootstrap = self._backend.engine, plan.baseline, plan.query.measurement.bootstrap
        parts = 1 + plan.losses

        def tick(number: int, stage: str, done: float) -> None:
            report((stage, (number + done) / parts))

        subjects = [Subject(model.encoder, model.tokenizer) for model in plan.models]
        measured = await measure(
            subjects, plan.query.measurement, engine, partial(tick, 0), baseline=baseline, inputs=plan.inputs
        )
        contenders = [Contender(model.encoder, caller.bulk(engine, model.encoder)) for model in plan.models]
        agreements: Sequence[Agreement | None] = [None] * len(plan.models)
        scores: Sequence[Sequence[Score]] = [()] * len(plan.models)
        if plan.questions:
            agreements = await measure_agreement(
                contenders, baseline, plan.questions, plan.shared, plan.top_k, bootstrap, partial(tick, 1, "agreement")
            )
        if plan.objectives:
            scores = await measure_scores(
                contenders, baseline, plan.objectives, bootstrap, partial(tick, plan.losses, "scores")
            )
        return Result(measured, agreements, scores)
