# ruff: noqa: ASYNC109  # the timeout is gRPC's deadline, which the server hears of, too
"""The methods of both clients that measure speed, size and what was lost."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import SupportsIndex

from bertscope import _benchmark_replies, _benchmark_requests, _events
from bertscope._benchmark_replies import StudiesAssembler
from bertscope._benchmark_requests import Measuring, ModelNames, Texts
from bertscope._connection import AsyncConnection, Connection
from bertscope._requests import Numbers
from bertscope.benchmark import BenchmarkProgress, BenchmarkReport
from bertscope.objectives import Objective
from bertscope.results import Model
from bertscope.studies import AsyncStudyBenchmark, StudyBenchmark
from bertscope.v1 import benchmark_pb2

OnProgress = Callable[[BenchmarkProgress], object]


class BenchmarkCalls(Connection):
    """Of `Client`."""

    def benchmark_models(
        self,
        models: ModelNames,
        *,
        baseline: str | Model | None = None,
        lengths: Numbers | None = None,
        texts: Texts | None = None,
        batch_sizes: Numbers | None = None,
        min_runs: SupportsIndex | None = None,
        min_seconds: float | None = None,
        max_seconds: float | None = None,
        agreement_texts: Texts | None = None,
        top_k: SupportsIndex | None = None,
        objective: Objective | None = None,
        others: str = "wait",
        resamples: SupportsIndex | None = None,
        seed: SupportsIndex = 0,
        confidence: float | None = None,
        on_progress: OnProgress | None = None,
        timeout: float | None = None,
    ) -> BenchmarkReport:
        """Measures loaded models in alternation, and compares each with the baseline: the first unless another is named.

        Speed is measured at `lengths` in tokens (32 and 128 unless set) or on `texts`: one sequence at a time, and offline
        at the best of `batch_sizes`; each model and length runs `min_runs` times (20) and `min_seconds` (1) at least, and
        the whole `max_seconds` (600) at most. `agreement_texts` compare predictions with the baseline's, `top_k` (5) of
        them; `objective` scores every model. What is left out costs nothing.

        While it runs, `others` that call for the same device "wait", or are told to come back later ("refuse").
        Intervals are a bootstrap: `resamples` (1000 unless set), `seed`, `confidence` (0.95). An exception in
        `on_progress`, or Ctrl-C, ends it.
        """
        measuring = Measuring(
            lengths, texts, batch_sizes, min_runs, min_seconds, max_seconds, others, resamples, seed, confidence
        )
        request = _benchmark_requests.benchmark_models(
            models, measuring, baseline=baseline, agreement_texts=agreement_texts, top_k=top_k, objective=objective
        )
        messages = self._stream(self._benchmark.BenchmarkModels, request, timeout)
        found = _events.last(messages, _benchmark_replies.benchmark_event, BenchmarkProgress, on_progress)
        return _benchmark_replies.reported(found)

    def benchmark_studies(
        self,
        systems: Texts | None = None,
        *,
        heavy: bool = False,
        runtime: str | None = None,
        lengths: Numbers | None = None,
        batch_sizes: Numbers | None = None,
        min_runs: SupportsIndex | None = None,
        min_seconds: float | None = None,
        max_seconds: float | None = None,
        others: str = "wait",
        resamples: SupportsIndex | None = None,
        seed: SupportsIndex = 0,
        confidence: float | None = None,
        on_progress: OnProgress | None = None,
        timeout: float | None = None,
    ) -> StudyBenchmark:
        """Measures published compressed models, as shapes with random weights: Table 1 of the Primer in BERTology, on the
        server's machine.

        `systems` are named as the rows are ("DistilBERT"); None means all, and `heavy` those of BERT-large size too.
        `runtime` ("torch", "onnx") runs them all where it can; the rest as in `benchmark_models`.
        """
        measuring = Measuring(
            lengths, None, batch_sizes, min_runs, min_seconds, max_seconds, others, resamples, seed, confidence
        )
        request = _benchmark_requests.benchmark_studies(systems, measuring, heavy=heavy, runtime=runtime)
        messages = self._stream(self._benchmark.BenchmarkStudies, request, timeout)
        return StudyBenchmark(StudiesAssembler(on_progress), messages)


class AsyncBenchmarkCalls(AsyncConnection):
    """Of `AsyncClient`."""

    async def benchmark_models(
        self,
        models: ModelNames,
        *,
        baseline: str | Model | None = None,
        lengths: Numbers | None = None,
        texts: Texts | None = None,
        batch_sizes: Numbers | None = None,
        min_runs: SupportsIndex | None = None,
        min_seconds: float | None = None,
        max_seconds: float | None = None,
        agreement_texts: Texts | None = None,
        top_k: SupportsIndex | None = None,
        objective: Objective | None = None,
        others: str = "wait",
        resamples: SupportsIndex | None = None,
        seed: SupportsIndex = 0,
        confidence: float | None = None,
        on_progress: OnProgress | None = None,
        timeout: float | None = None,
    ) -> BenchmarkReport:
        """Measures loaded models in alternation, see `Client.benchmark_models`."""
        measuring = Measuring(
            lengths, texts, batch_sizes, min_runs, min_seconds, max_seconds, others, resamples, seed, confidence
        )
        request = _benchmark_requests.benchmark_models(
            models, measuring, baseline=baseline, agreement_texts=agreement_texts, top_k=top_k, objective=objective
        )
        messages = self._stream(self._stubs.benchmark.BenchmarkModels, request, timeout)
        found = await _events.last_of(messages, _benchmark_replies.benchmark_event, BenchmarkProgress, on_progress)
        return _benchmark_replies.reported(found)

    def benchmark_studies(
        self,
        systems: Texts | None = None,
        *,
        heavy: bool = False,
        runtime: str | None = None,
        lengths: Numbers | None = None,
        batch_sizes: Numbers | None = None,
        min_runs: SupportsIndex | None = None,
        min_seconds: float | None = None,
        max_seconds: float | None = None,
        others: str = "wait",
        resamples: SupportsIndex | None = None,
        seed: SupportsIndex = 0,
        confidence: float | None = None,
        on_progress: OnProgress | None = None,
        timeout: float | None = None,
    ) -> AsyncStudyBenchmark:
        """Measures published compressed models, see `Client.benchmark_studies`."""
        measuring = Measuring(
            lengths, None, batch_sizes, min_runs, min_seconds, max_seconds, others, resamples, seed, confidence
        )
        request = _benchmark_requests.benchmark_studies(systems, measuring, heavy=heavy, runtime=runtime)
        return AsyncStudyBenchmark(StudiesAssembler(on_progress), self._benchmark_studies(request, timeout))

    async def _benchmark_studies(
        self, request: benchmark_pb2.BenchmarkStudiesRequest, timeout: float | None
    ) -> AsyncGenerator[benchmark_pb2.BenchmarkStudiesResponse, None]:
        # In a generator, so that the channel is made in the event loop, by the first message that is asked for.
        async with aclosing(self._stream(self._stubs.benchmark.BenchmarkStudies, request, timeout)) as messages:
            async for message in messages:
                yield message
