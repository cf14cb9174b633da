"""Grades of attributions: the exact values have the best ones, and others what they deserve."""

import json
from pathlib import Path

import numpy as np
import pytest
from bertscope_service.analyses.shapley import ExactShapley

from benchmarks.micro.attribution import Item, Truth, areas, covers, read_items, spearman


def truth(seed: int = 1, words: int = 5) -> Truth:
    scores = np.random.default_rng(seed).normal(size=1 << words)
    return Truth(ExactShapley(words).divide(scores).values, scores)


def test_areas_are_those_of_the_curves() -> None:
    """Of an additive score, by hand: words of 3, 1 and 0 that go, or come, in this order."""
    there = (np.arange(8)[:, None] >> np.arange(3)) & 1
    scores = there @ np.array([1.0, 3.0, 0.0])
    deletion, insertion = areas(np.array([1.0, 3.0, 0.0]), scores)
    assert deletion == pytest.approx((4 / 2 + 1 + 0 + 0 / 2) / 3)
    assert insertion == pytest.approx((0 / 2 + 3 + 4 + 4 / 2) / 3)


def test_equal_values_share_their_rank() -> None:
    values, ranks = np.array([2.0, 1.0, 2.0, 5.0]), np.array([1.5, 0, 1.5, 3])
    other = np.array([4.0, 3.0, 9.0, 5.0])
    assert spearman(values, other) == pytest.approx(np.corrcoef(ranks, np.array([1.0, 0, 3, 2]))[0, 1])
    assert spearman(np.array([1.0, 2.0, 3.0]), np.array([10.0, 20.0, 15.0])) == pytest.approx(0.5)
    assert spearman(np.ones(3), np.array([1.0, 2.0, 3.0])) == 0


def test_intervals_of_many_pairs_cover_most_values() -> None:
    held = [one for seed in range(40) for one in covers(truth(), 20, seed)]
    assert len(held) == 200 and 0.88 < np.mean(held) < 1


def test_pairs_that_differ_in_one_word_are_items(tmp_path: Path) -> None:
    pairs = [
        ("The keys are here.", "The keys is here."),
        ("The keys are here.", "The key is here."),
        ("The keys.", "The keys are here."),
    ]
    lines = [json.dumps({"sentence_good": good, "sentence_bad": bad}) for good, bad in pairs]
    (tmp_path / "pairs.jsonl").write_text("\n".join(lines), encoding="utf-8")
    assert list(read_items(tmp_path / "pairs.jsonl")) == [Item("The keys [MASK] here.", "are", "is")]
