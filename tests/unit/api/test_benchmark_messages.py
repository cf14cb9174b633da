"""Requests of BenchmarkService become queries or are refused with the field and a remedy; what was measured becomes replies."""

from typing import Any

import pytest
from bertscope.v1 import ablation_pb2 as ablation
from bertscope.v1 import benchmark_pb2 as benchmark
from bertscope.v1 import common_pb2 as common
from bertscope_service.analyses.ablation import Bootstrap
from bertscope_service.analyses.objectives.masked_lm import MaskedLmQuery
from bertscope_service.api.benchmark_requests import parse_benchmark, parse_models
from bertscope_service.api.field_checks import check_fields
from bertscope_service.api.limits import RequestLimits
from bertscope_service.benchmark.inputs import Measurement
from bertscope_service.errors import InvalidArgument

Request = benchmark.BenchmarkModelsRequest
LIMITS = RequestLimits(texts=4, text_characters=20, candidates=1000, tokens=1_000_000)
MAX_TOKENS = 64


def measured(**fields: Any) -> Request:
    return Request(models=["models/a"], measurement=benchmark.Measurement(**fields))


@pytest.mark.parametrize(
    ("request_", "field", "reason"),
    [
        (Request(models=["models/a", "models/b", "models/a"]), "models[2]", "DUPLICATE"),
        (Request(models=["models/a"], baseline="models/b"), "baseline", "BASELINE_NOT_LISTED"),
        (Request(models=["models/a"], baseline="a"), "baseline", "BASELINE_NOT_LISTED"),
    ],
)
def test_models_that_are_refused(request_: Request, field: str, reason: str) -> None:
    def read() -> None:
        check_fields(request_, LIMITS)
        parse_models(request_)

    with pytest.raises(InvalidArgument) as caught:
        read()
    assert (caught.value.field, caught.value.reason) == (field, reason)


@pytest.mark.parametrize(("reads", "lengths"), [(512, (32, 128)), (64, (32, 64)), (20, (20,))])
def test_usual_lengths_are_those_that_models_read(reads: int, lengths: tuple[int, ...]) -> None:
    assert parse_benchmark(Request(), reads).measurement.lengths == lengths


def test_everything_is_taken_over() -> None:
    request = measured(
        lengths=[64, 1],
        batch_sizes=[1, 3, 1024],
        min_runs=3,
        min_seconds=0.0,
        max_seconds=86_400.0,
        bootstrap=ablation.Bootstrap(resamples=100, seed=7, confidence=0.9),
        others=benchmark.OTHERS_REFUSE,
    )
    request.top_k = 100
    request.agreement_texts.extend(["The [MASK] sat."] * 5)
    request.objective.masked_lm_loss.texts.append("The cat sat.")
    query = parse_benchmark(request, MAX_TOKENS)
    assert query.measurement == Measurement((64, 1), (), (1, 3, 1024), 3, 0.0, 86_400.0, Bootstrap(100, 7, 0.9), True)
    assert query.agreement_texts == ("The [MASK] sat.",) * 5
    assert query.top_k == 100
    assert query.objective == MaskedLmQuery(("The cat sat.",), 0, 0.15, False)
    texts = parse_benchmark(measured(texts=["a"] * 9), MAX_TOKENS).measurement
    assert (texts.lengths, texts.texts) == ((), ("a",) * 9)


def with_objective(objective: ablation.Objective) -> Request:
    return Request(models=["models/a"], objective=objective)


DIVERGENCE = ablation.Objective(divergence=ablation.Divergence(inputs=[common.TextInput(text="a")]))


@pytest.mark.parametrize(
    ("request_", "field", "reason"),
    [
        (measured(lengths=[0]), "measurement.lengths[0]", "LENGTH_OUT_OF_RANGE"),
        (measured(lengths=[8, 65]), "measurement.lengths[1]", "LENGTH_OUT_OF_RANGE"),
        (measured(lengths=[8, 9, 8]), "measurement.lengths[2]", "DUPLICATE"),
        (measured(lengths=[8], texts=["a"]), "measurement.lengths", "LENGTHS_WITH_TEXTS"),
        (measured(batch_sizes=[1, 4, 4]), "measurement.batch_sizes[2]", "NOT_ASCENDING"),
        (measured(batch_sizes=[4, 2]), "measurement.batch_sizes[1]", "NOT_ASCENDING"),
        (
            Request(
                agreement_texts=["a"] * 1001, measurement=benchmark.Measurement(bootstrap=ablation.Bootstrap(resamples=100_000))
            ),
            "measurement.bootstrap.resamples",
            "TOO_MANY_DRAWS",
        ),
        (with_objective(ablation.Objective()), "objective", "OBJECTIVE_MISSING"),
        (with_objective(DIVERGENCE), "objective.divergence", "OBJECTIVE_UNSUITED"),
    ],
)
def test_what_is_refused(request_: Request, field: str, reason: str) -> None:
    def read() -> None:
        request_.models.extend([] if request_.models else ["models/a"])
        check_fields(request_, LIMITS)
        parse_benchmark(request_, MAX_TOKENS)

    with pytest.raises(InvalidArgument) as caught:
        read()
    assert (caught.value.field, caught.value.reason) == (field, reason)
    assert caught.value.message
