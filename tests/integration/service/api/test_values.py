"""PredictValues, and Classify of multi-label models, through gRPC give what transformers gives; others refuse by name."""

from pathlib import Path
from typing import Any

import bertscope
import numpy as np
import pytest
import torch
from bertscope.v1 import classification_pb2 as classification
from bertscope.v1 import common_pb2 as common
from numpy.typing import NDArray
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from tests.support.harness import CALL_SECONDS, Host
from tests.support.sweeps import text_input
from tests.support.tiny import LABELS, SENTENCES

INPUTS = (*((text, None) for text in SENTENCES[:6]), ("Is it raining?", "The cat sat."), ("a", None), ("The cat sat.", "a"))
ZEROED = [common.HeadIntervention(layer=1, heads=[1], mode=common.HeadIntervention.MODE_ZERO)]


def by_transformers(folder: Path, *, zeroed: bool) -> NDArray[np.float64]:
    """Returns logits, one input at a time [inputs, scores]; a zeroed head is the columns of the projection that read it."""
    reference = AutoModelForSequenceClassification.from_pretrained(folder, attn_implementation="eager").eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    with torch.no_grad():
        if zeroed:
            reference.bert.encoder.layer[1].attention.output.dense.weight[:, 8:16] = 0
        found = [reference(**tokenizer(text, pair, return_tensors="pt")).logits[0] for text, pair in INPUTS]
    return torch.stack(found).double().numpy()


def predict(host: Host, inputs: Any = INPUTS, **fields: Any) -> classification.PredictValuesResponse:
    asked = [text_input(text, pair) for text, pair in inputs]
    request = classification.PredictValuesRequest(**{"model": "models/rater", "inputs": asked} | fields)
    return host.classification.PredictValues(request, timeout=CALL_SECONDS)


def classify(host: Host, **fields: Any) -> classification.ClassifyResponse:
    inputs = [text_input(text, pair) for text, pair in INPUTS]
    request = classification.ClassifyRequest(**{"model": "models/topics", "inputs": inputs} | fields)
    return host.classification.Classify(request, timeout=CALL_SECONDS)


@pytest.mark.parametrize("zeroed", [False, True])
def test_values_are_those_of_transformers(lab: Host, sorters: dict[str, Path], zeroed: bool) -> None:
    expected = by_transformers(sorters["rater"], zeroed=zeroed)[:, 0]
    reply = predict(lab, interventions=ZEROED * zeroed)
    assert reply.provenance.model == "models/rater"
    np.testing.assert_allclose([one.value for one in reply.results], expected, atol=2e-5)
    alone = [predict(lab, [one], interventions=ZEROED * zeroed).results[0].value for one in INPUTS]
    np.testing.assert_allclose(alone, expected, atol=2e-5)
    assert np.ptp(expected) > 0.01
    tokenizer = AutoTokenizer.from_pretrained(sorters["rater"])
    assert [one.tokens for one in reply.results] == [len(tokenizer(text, pair)["input_ids"]) for text, pair in INPUTS]


@pytest.mark.slow
@pytest.mark.parametrize("zeroed", [False, True])
def test_each_label_has_its_own_probability(lab: Host, sorters: dict[str, Path], zeroed: bool) -> None:
    expected = by_transformers(sorters["topics"], zeroed=zeroed)
    reply = classify(lab, interventions=ZEROED * zeroed)
    assert reply.multi_label
    for result, logits in zip(reply.results, expected, strict=True):
        order = np.argsort(-logits)
        assert [label.index for label in result.labels] == order.tolist()
        assert [label.label for label in result.labels] == [LABELS[index] for index in order]
        np.testing.assert_allclose([label.logit for label in result.labels], logits[order], atol=2e-5)
        own = torch.from_numpy(logits[order]).sigmoid().numpy()
        np.testing.assert_allclose([label.probability for label in result.labels], own, atol=1e-5)
    assert not classify(lab, model="models/sorter").multi_label


def test_the_client_ranks_candidates(lab: Host) -> None:
    query, candidates = "Is it raining?", ["The cat sat.", "It was raining when they left the city.", "a", "The cat sat."]
    with bertscope.Client(lab.target) as client:
        values = [one.value for one in predict(lab, [(query, candidate) for candidate in candidates]).results]
        ranked = client.rank_candidates(query, iter(candidates), model="rater")
        assert [one.index for one in ranked] == sorted(range(4), key=lambda index: -values[index])
        assert [one.candidate for one in ranked] == [candidates[one.index] for one in ranked]
        assert [one.value for one in ranked] == pytest.approx(sorted(values, reverse=True), abs=1e-5)
        with pytest.raises(bertscope.InvalidArgument, match="at least one"):
            client.rank_candidates(query, [], model="rater")
        with pytest.raises(bertscope.InvalidArgument, match="query"):
            client.rank_candidates(3, candidates, model="rater")  # type: ignore[arg-type]
        assert client.classify("a", model="topics")[0].multi_label
        assert client.predict_values(("a", "b"), model="rater")[0].text_pair == "b"


def test_heads_are_ranked_by_the_squared_difference(lab: Host) -> None:
    golds = {text: float(number) for number, text in enumerate(SENTENCES[:6])}
    with bertscope.Client(lab.target) as client:
        values = [one.value for one in client.predict_values(list(golds), model="rater")]
        ranking = client.rank_heads(bertscope.RatedTexts(golds.items()), model="rater")
        assert ranking.loss == pytest.approx(np.mean(np.square(np.subtract(values, list(golds.values())))), rel=1e-5)
        assert np.all(ranking.importance >= 0) and np.ptp(ranking.importance) > 0
        with pytest.raises(bertscope.Unimplemented, match="regression head"):
            client.rank_heads(bertscope.RatedTexts(golds.items()), model="bert")


def test_sets_of_labels_are_ranked_and_swept(lab: Host) -> None:
    """The loss is the binary cross-entropy of the labels' own probabilities, and its gradients have finite differences."""
    golds = [(text, LABELS[: number % 4][:3]) for number, text in enumerate(SENTENCES[:6])]
    held = np.array([[name in names for name in LABELS[:3]] for _, names in golds])
    with bertscope.Client(lab.target) as client:
        found = client.classify([text for text, _ in golds], model="topics")
        shares = np.array(
            [[{one.label: one.probability for one in text.labels}[name] for name in LABELS[:3]] for text in found]
        )
        ranking = client.rank_heads(bertscope.LabelSets(golds), model="topics")
        assert ranking.loss == pytest.approx(-np.log(np.where(held, shares, 1 - shares)).mean(), rel=1e-4)
        step, ends = 0.02, []
        for factor in (1 + step, 1 - step):
            table = client.sweep_heads(bertscope.LabelSets(golds[:1]), model="topics", mode="scale", factor=factor).table()
            effects = {tuple(effect.heads.items()): effect.metrics["loss"].score for effect in table.effects}
            ends.append([effects[(layer, (head,)),] for layer in range(4) for head in range(4)])
        slopes = np.abs(np.subtract(*ends) / (2 * step)).reshape(4, 4)
        alone = client.rank_heads(bertscope.LabelSets(golds[:1]), model="topics")
        np.testing.assert_allclose(alone.gradient, slopes, atol=0.02 * slopes.max())
        with pytest.raises(bertscope.InvalidArgument, match=r"multi_label\.texts\[0\]\.labels\[0\] is not one of"):
            client.rank_heads(bertscope.LabelSets([("a", ["x"])]), model="topics")
