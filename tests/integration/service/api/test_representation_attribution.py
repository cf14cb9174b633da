"""AttributeLogits through gRPC: terms that sum to the difference of FillMask's logits, and ablations that are its own."""

from typing import Any

import pytest

from tests.support.calls import call
from tests.support.harness import Host
from tests.support.sweeps import matrix

TEXTS = ("The [MASK] sat on the mat.", "A [MASK] is in the house, and nobody waited for the dog.")
OWN: dict[str, Any] = {"layer": 3, "heads": [1], "mode": "MODE_SCALE", "scale": 2.0}


def attribute(host: Host, **fields: Any) -> Any:
    inputs = [{"text": text, "answer": "the", "other_answer": "cat"} for text in TEXTS]
    return call(host, "AttributeLogits", inputs=inputs, **fields)


def differences(host: Host, interventions: list[dict[str, Any]]) -> list[float]:
    """The same differences by FillMask."""
    reply = call(host, "FillMask", texts=TEXTS, candidates=["the", "cat"], logits=True, interventions=interventions)
    logits = [{one.token: one.logit for one in text.masks[0].predictions} for text in reply.results]
    return [one["the"] - one["cat"] for one in logits]


def total(found: Any) -> float:
    by_layer = [*found.feed_forward, *found.attention_biases, *found.normalisation_shifts]
    return float(matrix(found.heads).sum()) + sum(by_layer) + found.embeddings + found.head_biases


@pytest.mark.parametrize("interventions", [[], [OWN]])
def test_terms_and_ablations_are_those_of_fill_mask(host: Host, interventions: list[dict[str, Any]]) -> None:
    reply = attribute(host, interventions=interventions, ablate=True)
    whole = differences(host, interventions)
    for found, expected in zip(reply.results, whole, strict=True):
        assert found.difference == pytest.approx(expected, abs=1e-4)
        assert total(found) == pytest.approx(expected, abs=2e-4)
        assert (found.answer.token, found.other_answer.token) == ("the", "cat")
        assert list(found.heads.shape) == list(found.ablated.shape) == [4, 4]
        assert len(found.feed_forward) == len(found.attention_biases) == len(found.normalisation_shifts) == 4
    for layer, head in ((0, 0), (2, 3)):
        zeroed = {"layer": layer, "heads": [head], "mode": "MODE_ZERO"}
        without = differences(host, [*interventions, zeroed])
        for found, before, after in zip(reply.results, whole, without, strict=True):
            assert matrix(found.ablated)[layer, head] == pytest.approx(before - after, abs=1e-3)
    plain = attribute(host, interventions=interventions, ablate=False)
    assert not any(found.HasField("ablated") for found in plain.results)
