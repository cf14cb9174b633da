"""Builds the requests of BenchmarkService."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import SupportsIndex

from bertscope.errors import invalid_argument
from bertscope.questions.ablation.objectives import Divergence, Objective
from bertscope.questions.ablation.requests import objective_message
from bertscope.v1 import ablation_pb2, benchmark_pb2
from bertscope.values import validation
from bertscope.values.choices import Others
from bertscope.values.messages import Numbers, runtime_of, values
from bertscope.values.models import Model, model_name

Texts = str | Iterable[str]
ModelNames = str | Model | Iterable[str | Model]
"""One model, or many."""

OTHERS = values(Others, benchmark_pb2.Others, "OTHERS_")


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
        return benchmark_pb2.Measurement(
            lengths=validation.uint32s("lengths", self.lengths),
            texts=_some_texts("texts", self.texts),
            batch_sizes=validation.uint32s("batch_sizes", self.batch_sizes),
            min_runs=0 if self.min_runs is None else validation.positive("min_runs", self.min_runs),
            min_seconds=_seconds("min_seconds", self.min_seconds),
            max_seconds=_seconds("max_seconds", self.max_seconds),
            bootstrap=ablation_pb2.Bootstrap(
                resamples=None if self.resamples is None else validation.uint32("resamples", self.resamples),
                seed=validation.uint64("seed", self.seed),
                confidence=None if self.confidence is None else validation.finite_number("confidence", self.confidence),
            ),
            others=validation.choice("others", self.others, OTHERS),
        )


def benchmark_models(
    models: ModelNames,
    measuring: Measuring,
    *,
    baseline: str | Model | None,
    agreement_texts: Texts | None,
    top_k: SupportsIndex | None,
    objective: Objective | None,
    as_loaded: bool = False,
    runtime: str | None = None,
    embed: bool = False,
) -> benchmark_pb2.BenchmarkModelsRequest:
    """Returns the request of BenchmarkModels."""
    if as_loaded and runtime is not None:
        raise invalid_argument("runtime", "must be left out with as_loaded: each model runs by the library it is loaded for")
    if top_k is not None and agreement_texts is None:
        raise invalid_argument("top_k", "goes with agreement_texts: it is the k of the top-k agreement")
    if isinstance(objective, Divergence):
        raise invalid_argument("objective", "must not be a Divergence: agreement_texts measure how far predictions moved")
    return benchmark_pb2.BenchmarkModelsRequest(
        models=_model_names(models),
        baseline=model_name("baseline", baseline),
        measurement=measuring.message(),
        agreement_texts=_some_texts("agreement_texts", agreement_texts),
        top_k=0 if top_k is None else validation.positive("top_k", top_k),
        objective=None if objective is None else objective_message(objective),
        as_loaded=validation.flag("as_loaded", as_loaded),
        runtime=runtime_of(runtime),
        embed=validation.flag("embed", embed),
    )


def benchmark_studies(
    systems: Texts | None, measuring: Measuring, *, heavy: bool, runtime: str | None
) -> benchmark_pb2.BenchmarkStudiesRequest:
    """Returns the request of BenchmarkStudies."""
    return benchmark_pb2.BenchmarkStudiesRequest(
        systems=_some_texts("systems", systems),
        heavy=validation.flag("heavy", heavy),
        measurement=measuring.message(),
        runtime=runtime_of(runtime),
    )


def _model_names(models: ModelNames) -> list[str]:
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


def _some_texts(field: str, values: Texts | None) -> list[str]:
    return [] if values is None else validation.not_empty(field, validation.texts(field, values))


def _seconds(field: str, value: float | None) -> float | None:
    return None if value is None else validation.finite_number(field, value)
