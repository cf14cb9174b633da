"""DescribeGeometry through gRPC: replies add up, calls beside each other keep their sums apart, and bad fields are named."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.support.calls import call
from tests.support.harness import Host
from tests.support.tiny import SENTENCES

TEXTS = [*SENTENCES[:4], "The cat.", "A CAT sat on the cat."]
SUMS = ("directions", "direction_squares", "components", "norms", "norm_squares", "similarities_to_mean", "similarity_squares")
SUMS += ("text_direction_squares", "pair_similarities")


def describe(host: Host, texts: Sequence[str] = TEXTS) -> Any:
    asked = {"inputs": [{"text": text} for text in texts], "truncate": True, "words": ["cat"], "second_moments": True}
    return call(host, "DescribeGeometry", **asked)


def numbers(reply: Any) -> list[np.ndarray]:
    """All sums of a reply, one array after the other."""
    found = [np.array(getattr(layer, name), np.float64) for layer in reply.layers for name in SUMS]
    found += [np.frombuffer(layer.second_moments.data, "<f4").astype(np.float64) for layer in reply.layers]
    return [*found, *(np.array(word.directions) for word in reply.words)]


def assert_alike(found: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> None:
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4 * float(np.abs(other).max(initial=1)))


def test_replies_of_several_calls_add_up(host: Host) -> None:
    whole, parts = describe(host), [describe(host, TEXTS[begin : begin + 3]) for begin in (0, 3)]
    for name in ("texts", "compared_texts", "tokens", "vectors", "squared_vectors", "truncated_texts"):
        assert getattr(whole, name) == sum(getattr(part, name) for part in parts)
    assert [layer.layer for layer in whole.layers] == [0, 1, 2, 3, 4]
    sums = [[layer.second_moments for layer in part.layers] for part in parts]
    assert all(len(moments.data) == 4 * moments.shape[0] for part in sums for moments in part)
    split = [numbers(part) for part in parts]
    words = [len(part.words) for part in parts]
    assert whole.words[0].vectors == sum(word.vectors for part in parts for word in part.words)
    layers = len(SUMS) * 5 + 5
    assert_alike(
        numbers(whole)[:layers], [one + other for one, other in zip(split[0][:layers], split[1][:layers], strict=True)]
    )
    assert_alike(numbers(whole)[layers:], [np.sum([one[layers] for one, has in zip(split, words, strict=True) if has], axis=0)])
