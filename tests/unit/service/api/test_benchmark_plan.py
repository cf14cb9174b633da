"""What agreement is asked for, of models that need not be loaded for it."""

from types import SimpleNamespace
from typing import Any

import pytest
from bertscope_service.analyses.ablation import Bootstrap
from bertscope_service.api.benchmark_plan import make_questions
from bertscope_service.api.benchmark_requests import BenchmarkQuery
from bertscope_service.benchmark.inputs import Measurement
from bertscope_service.encoders.base import Capabilities
from bertscope_service.errors import InvalidArgument

from tests.support.word_pieces import WHOLE, WORDS

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
