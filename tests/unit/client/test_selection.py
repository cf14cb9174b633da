"""Heads are chosen on some texts and scored on others, so that heads which are all alike are seldom said to be good."""

from collections import Counter
from dataclasses import replace

import bertscope
import numpy as np
import pytest
from bertscope.questions.attention.selection import TextScore
from bertscope.questions.attention.sums import HeadSums

LAYERS, HEADS = 12, 12
EMPTY = HeadSums(0, np.zeros((LAYERS, HEADS)), np.zeros((LAYERS, HEADS)))
DIRECTED = bertscope.DirectedSums(EMPTY, EMPTY, np.zeros((LAYERS, HEADS), np.int64), np.zeros((LAYERS, HEADS)))
SOURCE = bertscope.Provenance("models/fake", "sha256:0", "torch", "cpu", "fp32", {}, "zero_based")


def scores(texts: int, share: float, seed: int, *, skilled: float | None = None) -> bertscope.RelationScores:
    """Of 144 heads that all find a share of the pairs, as the fixed distance 1 does; head 3:4 finds `skilled` of them."""
    numbers = np.random.default_rng(seed)
    counts = numbers.integers(1, 4, texts)
    near = [numbers.binomial(count, share) for count in counts]
    details = []
    for count, by_offset in zip(counts, near, strict=True):
        offsets = tuple([1] * by_offset + [2 + int(far) for far in numbers.integers(0, 4, count - by_offset)])
        found = numbers.binomial(count, share, (LAYERS, HEADS)).astype(np.uint16)
        if skilled is not None:
            found[3, 4] = numbers.binomial(count, skilled)
        details.append(TextScore(offsets, found, np.zeros((LAYERS, HEADS), np.uint16)))
    return scores_of(details)


def scores_of(details: list[TextScore], name: str = "nsubj") -> bertscope.RelationScores:
    offsets = Counter(offset for text in details for offset in text.offsets)
    correct = np.sum([text.forward for text in details], axis=0, dtype=np.int64)
    forward = bertscope.DirectedSums(EMPTY, EMPTY, correct, 0.0 * correct)
    score = bertscope.RelationScore(name, offsets.total(), 0, 0, offsets, forward, DIRECTED, tuple(details))
    return bertscope.RelationScores(LAYERS, HEADS, len(details), {name: score}, SOURCE)


def test_other_texts_choose_and_relations_that_they_lack_have_halves() -> None:
    mine = [TextScore((1,), grid({(0, 1): 1}), grid({}))] * 6
    theirs = [TextScore((2,), grid({(2, 2): 1}), grid({}))] * 3
    found, other = scores_of(mine), scores_of(theirs)
    best = found.best_heads(select=other)[0]
    assert (best.layer, best.head, best.accuracy, best.offset, best.offset_accuracy) == (2, 2, 0.0, 2, 0.0)
    assert (best.chosen_on, best.chosen_pairs, best.pairs) == ("other", 3, 6)
    assert found.combined_accuracy(None, select=other) == 0
    assert found.chosen_on(other) == "other"
    assert found.best_heads(select=scores_of(theirs, "obj"))[0].chosen_on == "half"
    elsewhere = replace(other, provenance=replace(SOURCE, weights_digest="sha256:1"))
    with pytest.raises(bertscope.FailedPrecondition):
        found.best_heads(select=elsewhere)
    with pytest.raises(bertscope.InvalidArgument, match="half, same"):
        found.best_heads(select="third")  # type: ignore[arg-type]


def test_the_combined_accuracy_is_that_of_texts_which_did_not_choose() -> None:
    """Heads that all are alike find as many pairs together as each of them."""
    found = [scores(10, 0.45, seed) for seed in range(40)]
    assert np.mean([one.combined_accuracy(None, select="same") for one in found]) > 0.6
    assert np.mean([one.combined_accuracy(None) for one in found]) == pytest.approx(0.45, abs=0.08)  # 40 times some 10 pairs
    assert {one.chosen_on() for one in found} == {"half"}
    assert all(one.combined_pairs() < one.combined_pairs("same") for one in found)


def grid(found: dict[tuple[int, int], int]) -> np.ndarray:
    counts = np.zeros((LAYERS, HEADS), np.uint16)
    for place, count in found.items():
        counts[place] = count
    return counts
