"""CompareAttention through gRPC: sums that add up over calls and agree with the maps that ExtractAttention streams."""

from typing import Any

import numpy as np
import pytest
from bertscope.v1 import attention_statistics_pb2 as statistics_pb2
from bertscope.v1 import common_pb2
from bertscope_service.analyses import attention_comparison
from numpy.typing import NDArray

from tests.support.attention_definitions import jensen_shannon, statistics
from tests.support.calls import call
from tests.support.harness import CALL_SECONDS, Host, read_maps
from tests.support.sweeps import text_input

INPUTS = [
    text_input("The cat sat."),
    text_input("The unhappy player sat.", "The children replayed the song, unrecognizably."),
    text_input("The nurse told the doctor that her patient had been waiting since 7:45 a.m."),
]
CLOSED = [common_pb2.HeadIntervention(layer=0, mode=common_pb2.HeadIntervention.MODE_ZERO)]


def compare(host: Host, **fields: Any) -> Any:
    return call(host, "CompareAttention", inputs=INPUTS, **fields)


def maps_of(host: Host, **fields: Any) -> list[NDArray[np.float64]]:
    """The maps of each text, [layers * heads, tokens, tokens]."""
    texts = read_maps(call(host, "ExtractAttention", inputs=INPUTS, **fields))
    return [text.values.astype(np.float64).reshape(-1, *text.values.shape[2:]) for text in texts]


@pytest.mark.parametrize(
    ("other", "changed", "kept_bytes"),
    [
        ("models/headless", {}, attention_comparison.KEPT_BYTES),
        ("", {"interventions": CLOSED}, 1),
        ("models/headless", {"interventions": CLOSED}, 1),
    ],
    ids=["two models", "interventions in steps", "both in steps"],
)
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
    assert (reply.layers, reply.heads, reply.texts) == (4, 4, len(INPUTS))
    np.testing.assert_allclose(reply.cosine.sums, np.sum(cosine, axis=0), rtol=0, atol=1e-5)
    np.testing.assert_allclose(reply.cosine.squares, np.square(cosine).sum(axis=0), rtol=0, atol=1e-5)
    np.testing.assert_allclose(reply.divergence.sums, np.sum(divergence, axis=0), rtol=0, atol=1e-5)
    assert len(reply.differences) == 13
    tokens_of_texts = [text.header.tokens for text in read_maps(call(host, "ExtractAttention", inputs=INPUTS))]
    for entry in reply.differences:
        name = statistics_pb2.AttentionStatistic.Name(entry.statistic).removeprefix("ATTENTION_STATISTIC_")
        changes = []
        for tokens, one, two in zip(tokens_of_texts, before, after, strict=True):
            which = [-1 if token.special else token.segment for token in tokens]
            commas = [token.text in (".", ",") for token in tokens]
            values = [[statistics(each, which, commas)[name] for each in maps] for maps in (one, two)]
            if values[0][0] is not None:
                changes.append(np.subtract(values[1], values[0]))
        assert entry.sums.texts == len(changes)
        np.testing.assert_allclose(entry.sums.sums, np.sum(changes, axis=0), rtol=0, atol=1e-4)
    assert reply.provenance.model == "models/bert"
    assert reply.other_provenance.model == (other or "models/bert")


@pytest.mark.slow
def test_comparisons_in_both_directions_at_once(host: Host) -> None:
    """Two models that wait for each other's maps on one device, many times over, and every answer is right."""
    expected = compare(host, other_model="models/headless")
    stub = host.attention
    forth = statistics_pb2.CompareAttentionRequest(model="models/bert", other_model="models/headless", inputs=INPUTS)
    back = statistics_pb2.CompareAttentionRequest(model="models/headless", other_model="models/bert", inputs=INPUTS)
    running = [stub.CompareAttention.future(request, timeout=CALL_SECONDS) for request in (forth, back) * 8]
    for number, one in enumerate(running):
        reply = one.result()
        assert reply.provenance.model == ("models/bert", "models/headless")[number % 2]
        np.testing.assert_allclose(reply.cosine.sums, expected.cosine.sums, rtol=0, atol=1e-5)
        np.testing.assert_allclose(reply.divergence.sums, expected.divergence.sums, rtol=0, atol=1e-5)
