"""BenchmarkModels of models that embed texts: how far vectors move, by what EmbedTexts answers, and what is timed."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bertscope
import numpy as np
import pytest
from bertscope import InvalidArgument, ModelReport, Unimplemented
from bertscope_service.models import timed_runs
from numpy.typing import NDArray
from scipy.stats import spearmanr

from tests.support.calls import models_as_before
from tests.support.declared import declare
from tests.support.harness import Host, LoopThread, launched
from tests.support.tiny import SENTENCES, write_checkpoint

BRIEF: dict[str, Any] = {"lengths": [8], "batch_sizes": [1], "min_runs": 3, "min_seconds": 0}
TEXTS = [*dict.fromkeys(SENTENCES)]


@pytest.fixture(scope="module")
def host(
    loop: LoopThread, checkpoints: dict[str, Path], sorters: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Host]:
    folder = tmp_path_factory.mktemp("vectors")
    declared = declare(checkpoints["headless"], folder / "declared", {"pooling_mode": "cls"})
    wide = declare(checkpoints["headless"], folder / "wide", {"pooling_mode": ["mean", "cls"]})
    broken = declare(checkpoints["headless"], folder / "broken", {}, ("Transformer", "Pooling", "Dense"))
    other = write_checkpoint("bert", folder / "other", seed=1)
    folders = {"headless": checkpoints["headless"], "bert": checkpoints["bert"], "sorter": sorters["sorter"]}
    folders |= {"declared": declared, "wide": wide, "broken": broken, "other": other}
    with launched(loop, model=[f"{name}={path}" for name, path in folders.items()]) as running:
        yield running


@pytest.fixture
def client(host: Host, short_warm_up: None) -> Iterator[bertscope.Client]:
    with bertscope.Client(host.target) as connected:
        yield connected


def agreement(client: bertscope.Client, baseline: str, model: str, k: int) -> tuple[float | None, float, float]:
    """The three means by what EmbedTexts answers, each model by itself, with numpy and scipy."""
    first, second = (unit(client.embed_texts(TEXTS, model=name).vectors.astype(np.float64)) for name in (baseline, model))
    cosine = (
        float(np.mean([one @ two for one, two in zip(first, second, strict=True)])) if first.shape == second.shape else None
    )
    shared, correlations = [], []
    for text in range(len(TEXTS)):
        one, two = (np.delete(vectors @ vectors[text], text) for vectors in (first, second))
        shared.append(len({*one.argsort()[-k:].tolist()} & {*two.argsort()[-k:].tolist()}) / k)
        correlations.append(spearmanr(one, two).statistic)
    return cosine, float(np.mean(shared)), float(np.mean(correlations))


def unit(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def lost(client: bertscope.Client, *models: str, **options: Any) -> ModelReport:
    report = client.benchmark_models(models, agreement_texts=TEXTS, **(BRIEF | options))
    assert report.models[0].vectors is None
    assert not any(model.agreement for model in report.models)
    return report.models[1]


@pytest.mark.parametrize(("baseline", "model"), [("headless", "declared"), ("headless", "wide"), ("headless", "other")])
def test_agreement_is_what_embed_texts_says(client: bertscope.Client, baseline: str, model: str) -> None:
    """With the pooling that each model declares; `wide` has vectors of another size, `other` a head as well."""
    found = lost(client, baseline, model, top_k=3).vectors
    assert found is not None
    cosine, shared, correlation = agreement(client, baseline, model, 3)
    assert found.cosine == (None if cosine is None else pytest.approx(cosine, abs=1e-5))
    assert (found.cosine is None) == (found.cosine_low is None) == (found.cosine_high is None) == (model == "wide")
    assert found.neighbours == pytest.approx(shared)
    assert found.rank_correlation == pytest.approx(correlation, abs=1e-4)
    assert (found.k, found.texts) == (3, len(TEXTS))
    assert found.rank_correlation_low < found.rank_correlation < found.rank_correlation_high <= 1
    assert found.neighbours_low < found.neighbours < found.neighbours_high <= 1


def test_heads_that_predict_are_compared_by_vectors_where_that_is_asked(client: bertscope.Client) -> None:
    found = lost(client, "bert", "sorter", embed=True).vectors
    assert found is not None
    cosine, shared, _ = agreement(client, "bert", "sorter", 5)
    assert (found.cosine, found.neighbours, found.k) == (pytest.approx(cosine, abs=1e-5), pytest.approx(shared), 5)
    predicted = client.benchmark_models(["bert", "other"], agreement_texts=TEXTS, **BRIEF)
    assert predicted.models[1].vectors is None
    assert predicted.models[1].agreement is not None


@pytest.mark.parametrize("steps", [[bertscope.keep_layers([0, 1])], pytest.param([bertscope.int8()], marks=pytest.mark.slow)])
def test_a_compressed_model_keeps_its_pooling(host: Host, client: bertscope.Client, steps: Any) -> None:
    with models_as_before(host):
        client.compress_model("small", steps, model="declared")
        found = lost(client, "declared", "small").vectors
        assert found is not None
        cosine, shared, correlation = agreement(client, "declared", "small", 5)
        assert found.cosine == pytest.approx(cosine, abs=1e-3)
        assert found.neighbours == pytest.approx(shared, abs=0.05)
        assert found.rank_correlation == pytest.approx(correlation, abs=0.02)
        assert client.embed_texts("a", model="small")[0].pooling == "declared"


def test_the_work_of_embed_texts_is_timed(client: bertscope.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """All layers and one vector of each sequence by the declared pooling, whose observer is that of EmbedTexts."""
    ran: list[tuple[str, str]] = []
    original = timed_runs.Embedding.__call__
    predicts = timed_runs.run

    def embed(self: timed_runs.Embedding, encoder: Any, batch: Any) -> None:
        ran.append(("embed", type(self._whole(3)).__name__))
        original(self, encoder, batch)

    def predict(encoder: Any, batch: Any) -> None:
        ran.append(("predict", ""))
        predicts(encoder, batch)

    monkeypatch.setattr(timed_runs.Embedding, "__call__", embed)
    monkeypatch.setattr(timed_runs, "run", predict)
    client.benchmark_models(["headless", "declared"], **BRIEF)
    assert {*ran} == {("embed", "Units"), ("embed", "WholeText")}
    for embed_too, wanted in ((False, ("predict", "")), (True, ("embed", "Units"))):
        ran.clear()
        client.benchmark_models("bert", embed=embed_too, **BRIEF)
        assert {*ran} == {wanted}


@pytest.mark.parametrize(
    ("models", "options", "error", "said"),
    [
        (("headless", "bert"), {"agreement_texts": TEXTS[:2]}, InvalidArgument, "agreement_texts has 2 texts"),
        (("headless", "bert"), {"agreement_texts": TEXTS, "top_k": 11}, InvalidArgument, "use at most 9"),
        (("bert", "broken"), {"embed": True}, Unimplemented, "the pooling that models/broken declares can't be used"),
        (("bert", "headless"), {"agreement_texts": TEXTS}, Unimplemented, "no masked-LM head"),
    ],
)
def test_what_can_not_be_compared_is_refused_in_words(
    client: bertscope.Client, models: tuple[str, ...], options: Any, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said.replace("[", r"\[").replace("]", r"\]")):
        client.benchmark_models(models, **BRIEF, **options)
