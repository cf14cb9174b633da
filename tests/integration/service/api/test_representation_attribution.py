"""AttributeLogits through gRPC: terms that sum to the difference of FillMask's logits, and ablations that are its own."""

import numpy as np
import pytest
from bertscope.v1 import cloze_pb2, common_pb2
from bertscope.v1 import representation_lens_pb2 as lens

from tests.support.harness import CALL_SECONDS, Host

TEXTS = ("The [MASK] sat on the mat.", "A [MASK] is in the house, and nobody waited for the dog.")
ZERO, SCALE = common_pb2.HeadIntervention.MODE_ZERO, common_pb2.HeadIntervention.MODE_SCALE
OWN = common_pb2.HeadIntervention(layer=3, heads=[1], mode=SCALE, scale=2.0)


def attribute(host: Host, *, interventions: list[common_pb2.HeadIntervention], ablate: bool) -> lens.AttributeLogitsResponse:
    inputs = [lens.AttributedInput(text=text, answer="the", other_answer="cat") for text in TEXTS]
    request = lens.AttributeLogitsRequest(inputs=inputs, ablate=ablate, interventions=interventions)
    return host.representation.AttributeLogits(request, timeout=CALL_SECONDS)


def differences(host: Host, interventions: list[common_pb2.HeadIntervention]) -> list[float]:
    """The same differences by FillMask."""
    request = cloze_pb2.FillMaskRequest(texts=TEXTS, candidates=["the", "cat"], logits=True, interventions=interventions)
    reply = host.cloze.FillMask(request, timeout=CALL_SECONDS)
    logits = [{one.token: one.logit for one in text.masks[0].predictions} for text in reply.results]
    return [one["the"] - one["cat"] for one in logits]


def matrix(tensor: common_pb2.Tensor) -> np.ndarray:
    return np.frombuffer(tensor.data, "<f4").reshape(tensor.shape)


def total(found: lens.LogitAttribution) -> float:
    by_layer = [*found.feed_forward, *found.attention_biases, *found.normalisation_shifts]
    return float(matrix(found.heads).sum()) + sum(by_layer) + found.embeddings + found.head_biases


@pytest.mark.parametrize("interventions", [[], [OWN]])
def test_terms_and_ablations_are_those_of_fill_mask(host: Host, interventions: list[common_pb2.HeadIntervention]) -> None:
    reply = attribute(host, interventions=interventions, ablate=True)
    whole = differences(host, interventions)
    for found, expected in zip(reply.results, whole, strict=True):
        assert found.difference == pytest.approx(expected, abs=1e-4)
        assert total(found) == pytest.approx(expected, abs=2e-4)
        assert (found.answer.token, found.other_answer.token) == ("the", "cat")
        assert list(found.heads.shape) == list(found.ablated.shape) == [4, 4]
        assert len(found.feed_forward) == len(found.attention_biases) == len(found.normalisation_shifts) == 4
    for layer, head in ((0, 0), (2, 3)):
        zeroed = common_pb2.HeadIntervention(layer=layer, heads=[head], mode=ZERO)
        without = differences(host, [*interventions, zeroed])
        for found, before, after in zip(reply.results, whole, without, strict=True):
            assert matrix(found.ablated)[layer, head] == pytest.approx(before - after, abs=1e-3)
    plain = attribute(host, interventions=interventions, ablate=False)
    assert not any(found.HasField("ablated") for found in plain.results)
