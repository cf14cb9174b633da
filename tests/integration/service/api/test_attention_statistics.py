"""DescribeAttention and CompareAttention through gRPC: sums that add up over calls and agree with the maps that
ExtractAttention streams."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from bertscope.v1 import attention_statistics_pb2 as statistics_pb2
from bertscope.v1 import common_pb2
from bertscope_service.analyses import attention_comparison, attention_description
from numpy.typing import NDArray

from tests.support.attention_definitions import jensen_shannon, statistics
from tests.support.calls import call
from tests.support.harness import CALL_SECONDS, Host, read_maps
from tests.support.sweeps import text_input

TEXTS: tuple[tuple[str, str | None], ...] = (
    ("The cat sat.", None),
    ("The unhappy player sat.", "The children replayed the song, unrecognizably."),
    ("The nurse told the doctor that her patient had been waiting since 7:45 a.m.", None),
    ("Nobody waited.", "No!"),
)
PREFIX = "ATTENTION_STATISTIC_"


def inputs(texts: Sequence[tuple[str, str | None]] = TEXTS) -> list[common_pb2.TextInput]:
    return [text_input(*text) for text in texts]


def describe(host: Host, **fields: Any) -> Any:
    return call(host, "DescribeAttention", **{"inputs": inputs()} | fields)


def sums_of(reply: statistics_pb2.DescribeAttentionResponse) -> dict[str, tuple[int, NDArray[np.float64]]]:
    """By name: the texts, and sums and squares."""
    found = {}
    for entry in reply.statistics:
        name = statistics_pb2.AttentionStatistic.Name(entry.statistic).removeprefix(PREFIX)
        assert name not in found
        found[name] = entry.sums.texts, np.array([entry.sums.sums, entry.sums.squares])
    return found


CHANGED: dict[str, Any] = {
    "interventions": [{"layer": 0, "heads": [1], "mode": "MODE_MEAN"}, {"layer": 1, "mode": "MODE_SCALE", "scale": 2.0}],
    "reference_texts": ["The cat sat.", "Nobody waited for the waiter."],
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "changed"),
    [("models/roberta", {}), ("models/bert", {"layers": [3, 1]}), ("models/bert", CHANGED)],
    ids=["untouched", "layers", "interventions"],
)
def test_statistics_are_those_of_the_maps_that_are_streamed(host: Host, model: str, changed: dict[str, Any]) -> None:
    reply = describe(host, model=model, **changed)
    texts = read_maps(call(host, "ExtractAttention", model=model, inputs=inputs(), **changed))
    assert list(reply.layers) == list(texts[0].header.layers)
    assert (reply.heads, reply.texts, reply.truncated_texts) == (4, len(TEXTS), 0)
    assert reply.tokens == sum(len(text.header.tokens) for text in texts)
    assert reply.provenance == texts[0].header.provenance
    assert not reply.HasField("head_distances")
    found = sums_of(reply)
    for name, (count, sums) in found.items():
        values = []
        for text in texts:
            which = [-1 if token.special else token.segment for token in text.header.tokens]
            commas = [token.text.lstrip("Ġ▁") in (".", ",") for token in text.header.tokens]
            maps = text.values.astype(np.float64).reshape(-1, *text.values.shape[2:])
            one = [statistics(each, which, commas)[name] for each in maps]
            if one[0] is not None:
                values.append(np.array(one))
        assert count == len(values)
        np.testing.assert_allclose(sums[0], sum(values), rtol=1e-5, atol=1e-5 * count, err_msg=name)
        np.testing.assert_allclose(sums[1], sum(map(np.square, values)), rtol=4e-5, atol=1e-5 * count, err_msg=name)
    assert len(found) == 13


def test_replies_of_several_calls_add_up(host: Host) -> None:
    whole, parts = describe(host), [describe(host, inputs=inputs(TEXTS[begin : begin + 2])) for begin in (0, 2)]
    assert sum(part.tokens for part in parts) == whole.tokens
    for name, (count, sums) in sums_of(whole).items():
        has = [sums_of(part)[name] for part in parts]
        assert count == sum(texts for texts, _ in has)
        np.testing.assert_allclose(sums, sum(numbers for _, numbers in has), rtol=1e-5, atol=1e-6)
    for index, entry in enumerate(whole.patterns):
        assert entry.pattern == index + 1
        scores = np.sum([part.patterns[index].scores.sums for part in parts], axis=0)
        np.testing.assert_allclose(entry.scores.sums, scores, rtol=1e-4, atol=1e-4)
    assert np.sum([entry.texts for entry in whole.patterns], axis=0).tolist() == [len(TEXTS)] * 16


@pytest.mark.slow
@pytest.mark.parametrize("kept_bytes", [1, attention_description.KEPT_BYTES])
def test_distances_between_heads(host: Host, monkeypatch: pytest.MonkeyPatch, kept_bytes: int) -> None:
    """Whatever part of the maps is compared at a time."""
    monkeypatch.setattr(attention_description, "KEPT_BYTES", kept_bytes)
    reply = describe(host, inputs=inputs(TEXTS[:2]), layers=[2, 0], head_distances=True)
    texts = read_maps(call(host, "ExtractAttention", inputs=inputs(TEXTS[:2]), layers=[2, 0]))
    expected = np.zeros((8, 8))
    for text in texts:
        maps = text.values.astype(np.float64).reshape(8, *text.values.shape[2:])
        expected += [[jensen_shannon(one, other) for other in maps] for one in maps]
    assert reply.head_distances.texts == 2
    np.testing.assert_allclose(np.reshape(reply.head_distances.sums, (8, 8)), expected, rtol=0, atol=2e-5)
    assert sums_of(reply).keys() == sums_of(describe(host)).keys()


def test_texts_that_are_cut_are_counted(host: Host) -> None:
    reply = describe(host, inputs=inputs([*TEXTS[:1], ("the cat " * 60, None)]), truncate=True)
    assert (reply.texts, reply.truncated_texts) == (2, 1)
    assert reply.tokens > 64


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
