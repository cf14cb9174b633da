"""Changes at sites in the calls of both clients and in commands, and traces, on a real server."""

from typing import Any

import bertscope
import numpy as np
import pytest
from bertscope.rpc import pacing

from tests.support.harness import Host

TEXT, OTHER = "The man was [MASK].", "The dog was [MASK]."
TARGET = bertscope.Answer("old", "young")


def logits(client: bertscope.Client, text: str, **asked: Any) -> float:
    """Returns by how much "old" is above "young"."""
    (found,) = client.fill_mask(text, candidates=["old", "young"], **asked)
    scores = {each.token: each.log_probability for each in found.masks[0].predictions}
    return scores["old"] - scores["young"]


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
