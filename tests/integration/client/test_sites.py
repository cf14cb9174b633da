"""Changes at sites in the calls of both clients and in commands, and traces, on a real server."""

import asyncio
from typing import Any

import bertscope
import numpy as np
import pytest
from bertscope.rpc import pacing

from tests.support.harness import Host

TEXT, OTHER = "The man was [MASK].", "The dog was [MASK]."
TARGET = bertscope.Answer("old", "young")
PAIRS = [(TEXT, OTHER), ("The cat was [MASK] here.", "A cat was [MASK] here."), ("She was [MASK].", "He was [MASK].")]


def logits(client: bertscope.Client, text: str, **asked: Any) -> float:
    """Returns by how much "old" is above "young"."""
    (found,) = client.fill_mask(text, candidates=["old", "young"], **asked)
    scores = {each.token: each.log_probability for each in found.masks[0].predictions}
    return scores["old"] - scores["young"]


def test_a_strength_is_in_norms_that_the_reply_has(host: Host) -> None:
    with bertscope.Client(host.target) as client:
        (kept,) = client.extract_hidden_states(TEXT, layers=1)
        states = kept.states[0]
        norm = float(np.linalg.norm(states, axis=1).mean())
        direction = np.eye(1, states.shape[1])[0]
        change = bertscope.add(1, 5 * direction, strength=2, positions="masks")
        (found,) = client.fill_mask(TEXT, interventions=change, reference_texts=TEXT)
        assert found.provenance.site_norms == pytest.approx([norm], rel=1e-4)
        same = bertscope.add(1, 2 * norm * direction, positions="masks")
        wanted = logits(client, TEXT, interventions=same)
        assert logits(client, TEXT, interventions=change, reference_texts=TEXT) == pytest.approx(wanted, abs=1e-3)


@pytest.mark.slow
def test_a_trace_is_a_loop_of_patches(host: Host) -> None:
    with bertscope.Client(host.target) as client:
        trace = client.trace(TEXT, OTHER, TARGET)
        untouched = logits(client, OTHER)
        expected = [
            [
                logits(client, OTHER, interventions=bertscope.patch(layer, TEXT, positions=[token])) - untouched
                for token in range(len(trace.names))
            ]
            for layer in trace.layers
        ]
        np.testing.assert_allclose(trace.difference, expected, atol=1e-3)
        assert trace.baseline == pytest.approx((logits(client, TEXT), untouched), abs=1e-3)
        assert trace.names[:4] == ("[CLS]", "the", "man", "was")
        np.testing.assert_allclose(trace.recovery[0], np.eye(1, len(trace.names), 2)[0], atol=1e-3)


@pytest.mark.slow
def test_both_clients_and_every_division_give_the_same(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    clean, corrupted = map(list, zip(*PAIRS, strict=True))
    with bertscope.Client(host.target) as client:
        found = client.trace(clean, corrupted, TARGET, sites=["state", "heads"], positions="together")
        one = [client.trace(*pair, TARGET, sites=["state", "heads"], positions="together") for pair in PAIRS]
        monkeypatch.setattr(pacing, "FIRST_WORK", 0.0)
        monkeypatch.setattr(pacing, "CALL_SECONDS", 0.0)
        divided = client.trace(clean, corrupted, TARGET, sites=["state", "heads"], positions="together")

    async def ask() -> bertscope.Trace:
        async with bertscope.AsyncClient(host.target) as client:
            return await client.trace(clean, corrupted, TARGET, sites=["state", "heads"], positions="together")

    for other in (divided, asyncio.run(ask()), bertscope.Trace.merge(one)):
        assert [effect.place for effect in other.effects] == [effect.place for effect in found.effects]
        np.testing.assert_allclose([each.sum for each in other.effects], [each.sum for each in found.effects], atol=1e-3)
        assert {each.count for each in other.effects} == {3}
        assert [pair.clean for pair in other.pairs] == pytest.approx([pair.clean for pair in found.pairs], abs=1e-3)
    np.testing.assert_allclose(found.matrix("recovery", "state"), 1, atol=1e-3)


def test_a_pair_of_other_lengths_is_named_among_all(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pacing, "FIRST_WORK", 0.0)
    monkeypatch.setattr(pacing, "CALL_SECONDS", 0.0)
    with bertscope.Client(host.target) as client, pytest.raises(bertscope.InvalidArgument, match=r"pairs\[2\]") as caught:
        client.trace([TEXT] * 3, [OTHER, OTHER, "It was [MASK]."], TARGET)
    assert len(caught.value.partial.pairs) == 2


def test_words_groups_and_corruptions(host: Host) -> None:
    with bertscope.Client(host.target) as client:
        words = client.trace(TEXT, bertscope.MaskedWords((4, 7)), TARGET, positions="each_word")
        assert words.names == ("[CLS]", "The", "man", "was", "[MASK]", ".", "[SEP]")
        noise = bertscope.NoisyWords((4, 7), samples=2, seed=3)
        groups = client.trace(TEXT, noise, TARGET, groups={"noun": (4, 7), "mask": (12, 18)}, layers=0)
        assert groups.names == ("noun", "mask")
        np.testing.assert_allclose(groups.difference[0, 0], groups.baseline.clean - groups.baseline.corrupted, atol=1e-3)
        silenced = client.trace(TEXT, None, TARGET, sites="heads", each_unit=True, positions="together", change=0)
        heads = client.get_model().heads
        expected = [logits(client, TEXT, interventions=bertscope.zero(0, head)) - logits(client, TEXT) for head in range(heads)]
        np.testing.assert_allclose(silenced.difference[0, :, 0], expected, atol=1e-3)
        assert silenced.direction == "change"


def test_paths_have_ends(host: Host) -> None:
    with bertscope.Client(host.target) as client:
        model = client.get_model()
        trace = client.trace(TEXT, OTHER, TARGET, paths=True, sender_layers=0, receiver_layers=[1, model.layers])
    assert trace.positions == "paths"
    parts = [effect.receiver.part for effect in trace.effects if effect.receiver is not None]
    assert {*parts} == {"query", "key", "value", "feed_forward", "logits"}
    senders = model.heads + 1
    assert len(trace.effects) == len(parts) == senders * (3 * model.heads + 2)
    assert {effect.site for effect in trace.effects} == {"heads", "feed_forward"}
    assert any(abs(effect.recovery) > 0.001 for effect in trace.effects)
