"""PredictValues, and Classify of multi-label models, through gRPC give what transformers gives; others refuse by name."""

from pathlib import Path
from typing import Any

import bertscope
import bertscope_workbench as workbench
import numpy as np
import pytest
import torch
from bertscope.v1 import common_pb2 as common
from numpy.typing import NDArray
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from tests.support.calls import call
from tests.support.harness import Host
from tests.support.plain import Plain
from tests.support.sweeps import text_input
from tests.support.tiny import LABELS, SENTENCES

INPUTS = (*((text, None) for text in SENTENCES[:6]), ("Is it raining?", "The cat sat."), ("a", None), ("The cat sat.", "a"))
ZEROED = [common.HeadIntervention(layer=1, heads=[1], mode=common.HeadIntervention.MODE_ZERO)]


def by_transformers(folder: Path, *, zeroed: bool) -> NDArray[np.float64]:
    """Returns logits, one input at a time [inputs, scores]; a zeroed head is the columns of the projection that read it."""
    plain = Plain(folder, AutoModelForSequenceClassification)
    if zeroed:
        plain.zero(1, 1)
    return np.stack([plain.logits(*given) for given in INPUTS])


def ask(host: Host, rpc: str, model: str, inputs: Any = INPUTS, **fields: Any) -> Any:
    return call(host, rpc, model=f"models/{model}", inputs=[text_input(*given) for given in inputs], **fields)


@pytest.mark.parametrize("zeroed", [False, True])
def test_values_are_those_of_transformers(lab: Host, sorters: dict[str, Path], zeroed: bool) -> None:
    expected = by_transformers(sorters["rater"], zeroed=zeroed)[:, 0]
    reply = ask(lab, "PredictValues", "rater", interventions=ZEROED * zeroed)
    assert reply.provenance.model == "models/rater"
    np.testing.assert_allclose([one.value for one in reply.results], expected, atol=2e-5)
    alone = [ask(lab, "PredictValues", "rater", [one], interventions=ZEROED * zeroed).results[0].value for one in INPUTS]
    np.testing.assert_allclose(alone, expected, atol=2e-5)
    assert np.ptp(expected) > 0.01
    tokenizer = AutoTokenizer.from_pretrained(sorters["rater"])
    assert [one.tokens for one in reply.results] == [len(tokenizer(text, pair)["input_ids"]) for text, pair in INPUTS]


@pytest.mark.slow
@pytest.mark.parametrize("zeroed", [False, True])
def test_each_label_has_its_own_probability(lab: Host, sorters: dict[str, Path], zeroed: bool) -> None:
    expected = by_transformers(sorters["topics"], zeroed=zeroed)
    reply = ask(lab, "Classify", "topics", interventions=ZEROED * zeroed)
    assert reply.multi_label
    for result, logits in zip(reply.results, expected, strict=True):
        order = np.argsort(-logits)
        assert [label.index for label in result.labels] == order.tolist()
        assert [label.label for label in result.labels] == [LABELS[index] for index in order]
        np.testing.assert_allclose([label.logit for label in result.labels], logits[order], atol=2e-5)
        own = torch.from_numpy(logits[order]).sigmoid().numpy()
        np.testing.assert_allclose([label.probability for label in result.labels], own, atol=1e-5)
    assert not ask(lab, "Classify", "sorter").multi_label


def test_the_client_ranks_candidates(lab: Host) -> None:
    query, candidates = "Is it raining?", ["The cat sat.", "It was raining when they left the city.", "a", "The cat sat."]
    with bertscope.Client(lab.target) as client:
        values = [one.value for one in ask(lab, "PredictValues", "rater", [(query, one) for one in candidates]).results]
        ranked = workbench.rank_candidates(client, query, iter(candidates), model="rater")
        assert [one.index for one in ranked] == sorted(range(4), key=lambda index: -values[index])
        assert [one.candidate for one in ranked] == [candidates[one.index] for one in ranked]
        assert [one.value for one in ranked] == pytest.approx(sorted(values, reverse=True), abs=1e-5)
        with pytest.raises(bertscope.InvalidArgument, match="at least one"):
            workbench.rank_candidates(client, query, [], model="rater")
        with pytest.raises(bertscope.InvalidArgument, match="query"):
            workbench.rank_candidates(client, 3, candidates, model="rater")  # type: ignore[arg-type]
        assert client.classify("a", model="topics")[0].multi_label
        assert client.predict_values(("a", "b"), model="rater")[0].text_pair == "b"
