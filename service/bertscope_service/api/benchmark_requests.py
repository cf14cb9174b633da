"""Requests of BenchmarkService."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bertscope.v1 import benchmark_pb2

from bertscope_service.analyses.objectives.build import ObjectiveQuery
from bertscope_service.analyses.objectives.divergence import DivergenceQuery
from bertscope_service.api.intervals import check_draws, parse_bootstrap
from bertscope_service.api.objectives import parse_objective
from bertscope_service.api.provenance import parse_runtime
from bertscope_service.benchmark.copies import CopyRequest
from bertscope_service.benchmark.inputs import Measurement
from bertscope_service.errors import InvalidArgument

USUAL_TOP_K = 5
REFUSE = {
    benchmark_pb2.OTHERS_UNSPECIFIED: False,
    benchmark_pb2.OTHERS_WAIT: False,
    benchmark_pb2.OTHERS_REFUSE: True,
}


@dataclass(frozen=True, slots=True)
class BenchmarkQuery:
    """A BenchmarkModels request without its models; `top_k` is None if it was not set. `embed`: models make vectors of texts,
    which are compared; else their heads predict."""

    measurement: Measurement
    agreement_texts: tuple[str, ...]
    top_k: int | None
    objective: ObjectiveQuery | None
    embed: bool = False


def parse_models(request: benchmark_pb2.BenchmarkModelsRequest) -> tuple[list[str], int]:
    """Returns the models' names and the index of the baseline. Raises InvalidArgument."""
    names = list(request.models)
    for index, name in enumerate(names):
        field = f"models[{index}]"
        if name in names[:index]:
            raise InvalidArgument(field, f"{name} is listed twice in models; list each once", "DUPLICATE")
    baseline = request.baseline or names[0]
    if baseline not in names:
        message = f"baseline {baseline!r} is not one of models; name one of them, or leave it out to take the first"
        raise InvalidArgument("baseline", message, "BASELINE_NOT_LISTED")
    return names, names.index(baseline)


def parse_asked(request: benchmark_pb2.BenchmarkModelsRequest) -> CopyRequest:
    """Returns how the models are to run. Raises InvalidArgument."""
    runtime = parse_runtime(request.runtime, "auto")
    if request.as_loaded and runtime != "auto":
        message = "as_loaded runs every model by the library that it is loaded for; leave runtime out, or as_loaded"
        raise InvalidArgument("runtime", message, "RUNTIME_AS_LOADED")
    return CopyRequest(request.as_loaded, "" if runtime == "auto" else runtime)


def parse_benchmark(request: benchmark_pb2.BenchmarkModelsRequest, max_tokens: int, *, embed: bool = False) -> BenchmarkQuery:
    """Converts the request without its models, which all read `max_tokens` tokens, and which `embed` texts or predict. Raises
    InvalidArgument."""
    measurement = parse_measurement(request.measurement, max_tokens)
    texts = tuple(request.agreement_texts)
    check_draws(measurement.bootstrap, len(texts) or 1, "measurement.bootstrap")
    return BenchmarkQuery(measurement, texts, request.top_k or None, _objective(request, measurement), embed)


def parse_measurement(given: benchmark_pb2.Measurement, max_tokens: int) -> Measurement:
    """Converts the request's measurement. Raises InvalidArgument."""
    usual, field = Measurement(), "measurement"
    refuse = REFUSE[given.others]
    min_seconds = given.min_seconds if given.HasField("min_seconds") else usual.min_seconds
    max_seconds = given.max_seconds if given.HasField("max_seconds") else usual.max_seconds
    return Measurement(
        lengths=_lengths(given, max_tokens),
        texts=tuple(given.texts),
        batch_sizes=_batch_sizes(given.batch_sizes, f"{field}.batch_sizes") or usual.batch_sizes,
        min_runs=given.min_runs or usual.min_runs,
        min_seconds=min_seconds,
        max_seconds=max_seconds,
        bootstrap=parse_bootstrap(given.bootstrap, f"{field}.bootstrap"),
        refuse=refuse,
    )


def _lengths(given: benchmark_pb2.Measurement, max_tokens: int) -> tuple[int, ...]:
    field, lengths = "measurement.lengths", given.lengths
    if given.texts:
        if lengths:
            raise InvalidArgument(
                field, f"{field} and measurement.texts exclude each other; set one of them", "LENGTHS_WITH_TEXTS"
            )
        return ()
    if not lengths:
        return tuple(sorted({min(length, max_tokens) for length in Measurement().lengths}))
    for index, length in enumerate(lengths):
        if not 1 <= length <= max_tokens:
            message = f"{field}[{index}] is {length}; use 1 to {max_tokens}, which all of the models read"
            raise InvalidArgument(f"{field}[{index}]", message, "LENGTH_OUT_OF_RANGE", limit=max_tokens)
        if length in lengths[:index]:
            raise InvalidArgument(f"{field}[{index}]", f"{length} is listed twice in {field}; list each once", "DUPLICATE")
    return tuple(lengths)


def _batch_sizes(sizes: Sequence[int], field: str) -> tuple[int, ...]:
    """Checks batch sizes; there may be none."""
    for index, size in enumerate(sizes):
        if index and size <= sizes[index - 1]:
            message = (
                f"{field}[{index}] is {size} and follows {sizes[index - 1]}; list batch sizes in ascending order, each once"
            )
            raise InvalidArgument(f"{field}[{index}]", message, "NOT_ASCENDING")
    return tuple(sizes)


def _objective(request: benchmark_pb2.BenchmarkModelsRequest, measurement: Measurement) -> ObjectiveQuery | None:
    if not request.HasField("objective"):
        return None
    query = parse_objective(request)
    if isinstance(query, DivergenceQuery):
        message = "objective is a divergence, which agreement_texts measure; give those, or another objective"
        raise InvalidArgument("objective.divergence", message, "OBJECTIVE_UNSUITED")
    return query
