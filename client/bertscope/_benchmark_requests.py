"""Builds the requests of BenchmarkService. Pure, as `_requests`, and raises InvalidArgument likewise."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import SupportsIndex

from bertscope import _ablation_requests, _encoding, _requests
from bertscope._requests import Numbers
from bertscope.errors import invalid_argument
from bertscope.objectives import Divergence, Objective
from bertscope.results import Model
from bertscope.v1 import ablation_pb2, benchmark_pb2

Texts = str | Iterable[str]
ModelNames = str | Model | Iterable[str | Model]
"""One model, or many."""

OTHERS = {"wait": benchmark_pb2.OTHERS_WAIT, "refuse": benchmark_pb2.OTHERS_REFUSE}


@dataclass(frozen=True)
class Measuring:
    """How speed is measured, as a caller wrote it; see `Client.benchmark_models`."""

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
        """The same as a message."""
        if self.lengths is not None and self.texts is not None:
            raise invalid_argument("lengths", "must be left out with texts: they have their own")
        return benchmark_pb2.Measurement(
            lengths=_encoding.uint32s("lengths", self.lengths),
            texts=_some_texts("texts", self.texts),
            batch_sizes=_encoding.uint32s("batch_sizes", self.batch_sizes),
            min_runs=_positive("min_runs", self.min_runs),
            min_seconds=_seconds("min_seconds", self.min_seconds),
            max_seconds=_seconds("max_seconds", self.max_seconds),
            bootstrap=ablation_pb2.Bootstrap(
                resamples=None if self.resamples is None else _encoding.uint32("resamples", self.resamples),
                seed=_encoding.uint64("seed", self.seed),
                confidence=None if self.confidence is None else _encoding.finite_number("confidence", self.confidence),
            ),
            others=_encoding.choice("others", self.others, OTHERS),
        )


def benchmark_models(
    models: ModelNames,
    measuring: Measuring,
    *,
    baseline: str | Model | None,
    agreement_texts: Texts | None,
    top_k: SupportsIndex | None,
    objective: Objective | None,
) -> benchmark_pb2.BenchmarkModelsRequest:
    """Request of BenchmarkModels."""
    if top_k is not None and agreement_texts is None:
        raise invalid_argument("top_k", "goes with agreement_texts: it is the k of the top-k agreement")
    if isinstance(objective, Divergence):
        raise invalid_argument("objective", "must not be a Divergence: agreement_texts measure how far predictions moved")
    return benchmark_pb2.BenchmarkModelsRequest(
        models=_model_names(models),
        baseline=_requests.model_name("baseline", baseline),
        measurement=measuring.message(),
        agreement_texts=_some_texts("agreement_texts", agreement_texts),
        top_k=_positive("top_k", top_k),
        objective=None if objective is None else _ablation_requests.objective_message(objective),
    )


def benchmark_studies(
    systems: Texts | None, measuring: Measuring, *, heavy: bool, runtime: str | None
) -> benchmark_pb2.BenchmarkStudiesRequest:
    """Request of BenchmarkStudies."""
    return benchmark_pb2.BenchmarkStudiesRequest(
        systems=_some_texts("systems", systems),
        heavy=_encoding.flag("heavy", heavy),
        measurement=measuring.message(),
        runtime=_requests.runtime_of(runtime),
    )


def _model_names(models: ModelNames) -> list[str]:
    # A Model is not iterable, and a string is one name.
    asked = [models] if isinstance(models, (str, Model)) else _encoding.many("models", models, "names of models")
    names = [_model_name(f"models[{index}]", model) for index, model in enumerate(asked)]
    if not names:
        raise invalid_argument("models", "is empty: say which models to measure")
    return names


def _model_name(field: str, model: object) -> str:
    if isinstance(model, (str, Model)):
        return _requests.model_name(field, model)
    raise invalid_argument(field, f"must be the name of a model, not {type(model).__name__}")


def _some_texts(field: str, values: Texts | None) -> list[str]:
    return [] if values is None else _encoding.not_empty(field, _encoding.texts(field, values))


def _seconds(field: str, value: float | None) -> float | None:
    return None if value is None else _encoding.finite_number(field, value)


def _positive(field: str, value: SupportsIndex | None) -> int:
    # The wire takes 0 for the default; whoever writes it here means something else.
    number = 0 if value is None else _encoding.uint32(field, value)
    if value is not None and not number:
        raise invalid_argument(field, "must be at least 1")
    return number
