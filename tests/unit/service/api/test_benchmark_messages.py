"""Requests of BenchmarkService become queries or are refused with the field and a remedy; what was measured becomes replies."""

from typing import Any

import pytest
from bertscope.v1 import ablation_pb2 as ablation
from bertscope.v1 import benchmark_pb2 as benchmark
from bertscope_service.analyses.ablation import Bootstrap
from bertscope_service.analyses.objectives.masked_lm import MaskedLmQuery
from bertscope_service.api.benchmark_requests import parse_benchmark
from bertscope_service.benchmark.inputs import Measurement
from bertscope_service.errors import InvalidArgument

Request = benchmark.BenchmarkModelsRequest
MAX_TOKENS = 64


def measured(**fields: Any) -> Request:
    return Request(models=["models/a"], measurement=benchmark.Measurement(**fields))


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


def test_draws_are_bounded() -> None:
    bootstrap = ablation.Bootstrap(resamples=100_000)
    request = Request(models=["models/a"], agreement_texts=["a"] * 1001, measurement={"bootstrap": bootstrap})
    with pytest.raises(InvalidArgument) as caught:
        parse_benchmark(request, MAX_TOKENS)
    assert (caught.value.field, caught.value.reason) == ("measurement.bootstrap.resamples", "TOO_MANY_DRAWS")
