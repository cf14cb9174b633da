"""Requests of BenchmarkService become queries and questions, or are refused with the field and a remedy. No model is loaded."""

from types import SimpleNamespace
from typing import Any

import pytest
from bertscope.v1 import ablation_pb2 as ablation
from bertscope.v1 import benchmark_pb2 as benchmark
from bertscope_service.analyses.metrics import Bootstrap
from bertscope_service.analyses.objectives.masked_lm import MaskedLmQuery
from bertscope_service.api.benchmark_plan import make_questions
from bertscope_service.api.benchmark_requests import BenchmarkQuery, parse_benchmark
from bertscope_service.benchmark.inputs import Measurement
from bertscope_service.encoders.base import Capabilities
from bertscope_service.errors import InvalidArgument

from tests.support.made_tokenizers import WHOLE, WORDS

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


SIZE = 5 + len(WORDS)


def model(labels: int = 0) -> Any:
    shape = SimpleNamespace(label_names=tuple(f"label {number}" for number in range(labels)), vocabulary_size=SIZE)
    capabilities = Capabilities(masked_lm=not labels, classification=bool(labels))
    return SimpleNamespace(tokenizer=WHOLE, encoder=SimpleNamespace(shape=shape, capabilities=capabilities))


def query(top_k: int | None) -> BenchmarkQuery:
    return BenchmarkQuery(Measurement(bootstrap=Bootstrap()), ("the cat sat .",), top_k, None)


@pytest.mark.parametrize(("labels", "most"), [(0, SIZE), (3, 3)])
def test_top_k_is_at_most_what_there_is_to_choose_from(labels: int, most: int) -> None:
    models = [model(labels), model(labels)]
    assert make_questions(query(most), models, 0)[2] == most
    assert make_questions(query(None), models, 0)[2] == min(5, most)
    with pytest.raises(InvalidArgument) as caught:
        make_questions(query(most + 1), models, 0)
    assert (caught.value.field, caught.value.reason) == ("top_k", "TOP_K_OUT_OF_RANGE")
