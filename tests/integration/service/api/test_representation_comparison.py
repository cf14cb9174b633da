"""CompareRepresentations through gRPC: replies add up, also beside other calls, and those of two models."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from bertscope.v1 import common_pb2
from numpy.typing import NDArray

from tests.support.calls import call
from tests.support.harness import Host
from tests.support.tiny import SENTENCES

TEXTS = [*SENTENCES[:5], "The cat.", "A cat sat on the other cat."]
CLOSED = [common_pb2.HeadIntervention(layer=2, mode=common_pb2.HeadIntervention.MODE_ZERO)]


def compare(host: Host, texts: Sequence[str] = TEXTS, **fields: Any) -> Any:
    return call(host, "CompareRepresentations", inputs=[{"text": text} for text in texts], truncate=True, **fields)


def sums(reply: Any) -> NDArray[np.float64]:
    return np.array([*reply.shared, *reply.own, *reply.other])


def cka(reply: Any) -> NDArray[np.float64]:
    found: NDArray[np.float64] = np.reshape(reply.shared, (len(reply.layers), -1)) / np.sqrt(np.outer(reply.own, reply.other))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("fields", [{}, {"other_model": "models/roberta"}, {"interventions": CLOSED}])
def test_replies_of_several_calls_add_up(host: Host, fields: dict[str, Any]) -> None:
    whole, parts = compare(host, **fields), [compare(host, TEXTS[begin : begin + 3], **fields) for begin in (0, 3, 6)]
    for name in ("texts", "compared_texts", "compared_words", "tokens", "truncated_texts"):
        assert getattr(whole, name) == sum(getattr(part, name) for part in parts)
    assert (whole.texts, whole.compared_texts) == (7, 6)
    added = np.sum([sums(part) for part in parts], axis=0)
    np.testing.assert_allclose(sums(whole), added, rtol=1e-4, atol=1e-5 * float(np.abs(added).max()))
    assert whole.other_provenance.model == fields.get("other_model", "models/bert")


def test_a_layer_is_like_itself_and_its_twin(host: Host) -> None:
    np.testing.assert_allclose(np.diag(cka(compare(host))), 1, rtol=1e-12)
    closed = cka(compare(host, interventions=CLOSED))
    np.testing.assert_allclose(np.diag(closed)[:3], 1, atol=1e-4)
    assert (np.diag(closed)[3:] < 0.9999).all()
    forth, back = compare(host, other_model="models/roberta"), compare(host, model="models/roberta", other_model="models/bert")
    assert forth.compared_words == back.compared_words
    np.testing.assert_allclose(cka(forth), cka(back).T, atol=1e-4)


def test_layers_are_those_that_were_asked_for(host: Host) -> None:
    every = cka(compare(host))
    some = compare(host, layers=[3, 1])
    assert (list(some.layers), list(some.other_layers)) == ([3, 1], [3, 1])
    np.testing.assert_allclose(cka(some), every[[3, 1]][:, [3, 1]], atol=1e-5)
    other = compare(host, layers=[3, 1], other_layers=[4])
    np.testing.assert_allclose(cka(other), every[[3, 1]][:, [4]], atol=1e-5)
    assert list(compare(host, layers=[2], other_model="models/roberta").other_layers) == [0, 1, 2, 3, 4]
