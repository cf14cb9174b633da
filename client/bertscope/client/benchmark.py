# Generated from bertscope/questions/benchmark/calls.py. Do not edit: change that file, and run `make client`.
"""Calls for speed, size and losses: `benchmark_models`, `benchmark_studies`."""

from __future__ import annotations

from collections.abc import Callable
from typing import SupportsIndex

from bertscope.client.connection import Connection
from bertscope.client.streams import Reading, last
from bertscope.errors import invalid_argument
from bertscope.questions.ablation.objectives import Objective
from bertscope.questions.benchmark.messages import (
    Measuring,
    ModelNames,
    StudiesAssembler,
    Texts,
    benchmark_event,
    checked_objective,
    model_names,
)
from bertscope.questions.benchmark.reports import BenchmarkProgress, BenchmarkReport, StudiesSummary, StudyRow, StudyTable
from bertscope.v1 import benchmark_pb2
from bertscope.values.choices import Others, Runtime
from bertscope.values.messages import Numbers
from bertscope.values.models import Model, model_name
from bertscope.values.requests import request_of

__all__ = ["StudyBenchmark"]

OnProgress = Callable[[BenchmarkProgress], object]


class StudyBenchmark(Reading[StudyRow, StudyTable]):
    """A running benchmark of studies: gives a `StudyRow` at a time, or all of them as a `table`.

    The call begins at the first read. Leaving it as a context manager, or `close`, cancels it.

    >>> with client.benchmark_studies(["DistilBERT"]) as studies:  # doctest: +SKIP
    ...     for study in studies:
    ...         print(study.published.system, study.published.speedup, study.measured)
    ...     table = studies.table()
    """

    what = "benchmark"

    @property
    def summary(self) -> StudiesSummary:
        """The machine, and other calls for the device; waits for the end."""
        table = self.table()
        return table.summary


class BenchmarkCalls(Connection):
    """The methods of `Client` that measure models."""

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
        embed: bool = False,
        as_loaded: bool = False,
        runtime: Runtime | None = None,
        others: Others = "wait",
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

        With `embed`, and where the baseline has no head that predicts, models make a vector of each text, as `embed_texts`
        does: that is timed, and `agreement_texts` compare vectors and their `top_k` nearest texts with the baseline's
        (`ModelReport.vectors`).

        All models run by the library that runs the baseline, or by `runtime` ("torch", "onnx"), and in its number format; the
        server copies those that are loaded otherwise, for as long as this takes. With `as_loaded` every model runs as it is
        loaded, and a ratio between models that run differently has a `caveat`. Read `report.warnings` first.

        While it runs, `others` that call for the same device "wait", or are rejected with a retry delay ("refuse").
        Intervals are a bootstrap: `resamples` (1000 unless set), `seed`, `confidence` (0.95). An exception in
        `on_progress`, or Ctrl-C, ends it.
        """
        measuring = Measuring(
            lengths, texts, batch_sizes, min_runs, min_seconds, max_seconds, others, resamples, seed, confidence
        )
        if as_loaded and runtime is not None:
            told = "must be left out with as_loaded: each model runs by the library it is loaded for"
            raise invalid_argument("runtime", told)
        request = request_of(
            benchmark_pb2.BenchmarkModelsRequest,
            models=model_names(models),
            baseline=model_name("baseline", baseline),
            measurement=measuring.message(),
            agreement_texts=agreement_texts,
            top_k=top_k,
            objective=checked_objective(objective, agreement_texts, top_k),
            as_loaded=as_loaded,
            runtime=runtime,
            embed=embed,
        )
        messages = self._stream(request, benchmark_pb2.BenchmarkModelsResponse, timeout)
        return last(messages, benchmark_event, on_progress, BenchmarkReport, "benchmark without a report")

    def benchmark_studies(
        self,
        systems: Texts | None = None,
        *,
        heavy: bool = False,
        runtime: Runtime | None = None,
        lengths: Numbers | None = None,
        batch_sizes: Numbers | None = None,
        min_runs: SupportsIndex | None = None,
        min_seconds: float | None = None,
        max_seconds: float | None = None,
        others: Others = "wait",
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
        request = request_of(
            benchmark_pb2.BenchmarkStudiesRequest,
            systems=systems,
            heavy=heavy,
            measurement=measuring.message(),
            runtime=runtime,
        )
        messages = self._stream(request, benchmark_pb2.BenchmarkStudiesResponse, timeout)
        return StudyBenchmark(StudiesAssembler(on_progress), messages)
