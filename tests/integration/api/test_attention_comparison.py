"""CompareAttention through gRPC: sums that add up over calls and agree with the maps that ExtractAttention streams."""

from typing import Any

import numpy as np
import pytest
from bertscope.v1 import attention_pb2 as attention
from bertscope.v1 import attention_statistics_pb2 as statistics_pb2
from bertscope.v1 import common_pb2
from bertscope_service.analyses import attention_comparison
from numpy.typing import NDArray

from tests.support.attention_definitions import jensen_shannon
from tests.support.harness import CALL_SECONDS, Host, read_maps

INPUTS = [
    common_pb2.TextInput(text="The cat sat."),
    common_pb2.TextInput(text="The unhappy player sat.", text_pair="The children replayed the song, unrecognizably."),
    common_pb2.TextInput(text="The nurse told the doctor that her patient had been waiting since 7:45 a.m."),
]
CLOSED = [common_pb2.HeadIntervention(layer=0, mode=common_pb2.HeadIntervention.MODE_ZERO)]


def compare(host: Host, **fields: Any) -> statistics_pb2.CompareAttentionResponse:
    fields.setdefault("inputs", INPUTS)
    reply = host.attention.CompareAttention(statistics_pb2.CompareAttentionRequest(**fields), timeout=CALL_SECONDS)
    assert isinstance(reply, statistics_pb2.CompareAttentionResponse)
    return reply


def maps_of(host: Host, **fields: Any) -> list[NDArray[np.float64]]:
    """The maps of each text, [layers * heads, tokens, tokens]."""
    request = attention.ExtractAttentionRequest(inputs=INPUTS, **fields)
    texts = read_maps(host.attention.ExtractAttention(request, timeout=CALL_SECONDS))
    return [text.values.astype(np.float64).reshape(-1, *text.values.shape[2:]) for text in texts]


@pytest.mark.parametrize(
    ("other", "changed"),
    [("models/headless", {}), ("", {"interventions": CLOSED}), ("models/headless", {"interventions": CLOSED})],
    ids=["two models", "interventions", "both"],
)
@pytest.mark.parametrize("kept_bytes", [attention_comparison.KEPT_BYTES, 1], ids=["whole", "steps"])
def test_differences_are_those_of_the_maps_that_are_streamed(
    host: Host, monkeypatch: pytest.MonkeyPatch, other: str, changed: dict[str, Any], kept_bytes: int
) -> None:
    monkeypatch.setattr(attention_comparison, "KEPT_BYTES", kept_bytes)
    reply = compare(host, other_model=other, **changed)
    before, after = maps_of(host), maps_of(host, model=other, **changed)
    cosine = [
        [(one * two).sum() / np.sqrt((one**2).sum() * (two**2).sum()) for one, two in zip(*text, strict=True)]
        for text in zip(before, after, strict=True)
    ]
    divergence = [[jensen_shannon(*maps) for maps in zip(*text, strict=True)] for text in zip(before, after, strict=True)]
    confidence = [
        (two.max(axis=-1).mean(axis=-1) - one.max(axis=-1).mean(axis=-1)) for one, two in zip(before, after, strict=True)
    ]
    assert (reply.layers, reply.heads, reply.texts) == (4, 4, len(INPUTS))
    np.testing.assert_allclose(reply.cosine.sums, np.sum(cosine, axis=0), rtol=0, atol=1e-5)
    np.testing.assert_allclose(reply.cosine.squares, np.square(cosine).sum(axis=0), rtol=0, atol=1e-5)
    np.testing.assert_allclose(reply.divergence.sums, np.sum(divergence, axis=0), rtol=0, atol=1e-5)
    found = {entry.statistic: entry.sums for entry in reply.differences}
    changes = found[statistics_pb2.ATTENTION_STATISTIC_CONFIDENCE]
    np.testing.assert_allclose(changes.sums, np.sum(confidence, axis=0), rtol=0, atol=1e-5)
    assert len(found) == 13
    assert reply.provenance.model == "models/bert"
    assert reply.other_provenance.model == (other or "models/bert")


def test_replies_of_several_calls_add_up(host: Host) -> None:
    whole = compare(host, other_model="models/headless")
    parts = [compare(host, other_model="models/headless", inputs=[one]) for one in INPUTS]
    assert whole.tokens == sum(part.tokens for part in parts)
    for field in ("cosine", "divergence"):
        sums = np.sum([getattr(part, field).sums for part in parts], axis=0)
        np.testing.assert_allclose(getattr(whole, field).sums, sums, rtol=0, atol=1e-5)


def test_comparisons_in_both_directions_at_once(host: Host) -> None:
    """Two models that wait for each other's maps on one device, many times over, and every answer is right."""
    expected = compare(host, other_model="models/headless")
    stub = host.attention
    forth = statistics_pb2.CompareAttentionRequest(model="models/bert", other_model="models/headless", inputs=INPUTS)
    back = statistics_pb2.CompareAttentionRequest(model="models/headless", other_model="models/bert", inputs=INPUTS)
    calls = [stub.CompareAttention.future(request, timeout=CALL_SECONDS) for request in (forth, back) * 8]
    for number, call in enumerate(calls):
        reply = call.result()
        assert reply.provenance.model == ("models/bert", "models/headless")[number % 2]
        np.testing.assert_allclose(reply.cosine.sums, expected.cosine.sums, rtol=0, atol=1e-5)
        np.testing.assert_allclose(reply.divergence.sums, expected.divergence.sums, rtol=0, atol=1e-5)
