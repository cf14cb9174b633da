"""Heads are chosen on other items than they are scored on, and sets of heads are spread over the layers."""

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from bertscope_workbench.primer.data.pointing import Pointed, agreement, coreference, reflexives
from bertscope_workbench.primer.estimates import NotAsked
from bertscope_workbench.primer.measures.attributing import spearman
from bertscope_workbench.primer.measures.sentences import crossed, head_names
from bertscope_workbench.primer.measures.silencing import spread_sets
from scipy.stats import spearmanr


def test_the_best_of_noise_is_noise() -> None:
    generator = np.random.default_rng(1)
    means = [crossed(generator.normal(size=(40, 100)))[0].mean() for _ in range(200)]
    assert abs(np.mean(means)) < 0.05  # the best of 100 on the items that chose it would have 0.4
    assert generator.normal(size=(40, 100)).mean(0).max() > 0.25


def test_each_half_is_scored_by_the_choice_of_the_other() -> None:
    values = np.array([[1.0, 0], [0, 2], [1, 0], [0, 2]])
    scored, best = crossed(values)
    assert best.tolist() == [1, 0, 1, 0]
    assert scored.tolist() == [0, 0, 0, 0]
    assert head_names(best, 2) == "chosen on one half of the items and scored on the other, both ways: 0:1, 0:0"


def test_one_item_has_no_halves() -> None:
    with pytest.raises(NotAsked, match="one item"):
        crossed(np.zeros((1, 3)))


@pytest.mark.parametrize(("layers", "heads"), [(6, 12), (12, 12), (2, 4), (3, 2)])
def test_spread_sets_hold_each_head_once(layers: int, heads: int) -> None:
    sets = spread_sets(layers, heads)
    assert len(sets) == layers
    assert [sum(len(own or ()) for own in each.values()) for each in sets] == [heads] * layers
    counts = Counter((layer, head) for each in sets for layer, own in each.items() for head in own or ())
    assert len(counts) == layers * heads
    assert set(counts.values()) == {1}
    sizes = {len(each.get(layer) or ()) for each in sets for layer in range(layers)}
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("make", [agreement, reflexives, coreference])
def test_words_point_where_the_text_says(make: Callable[[], list[Pointed]]) -> None:
    items = make()
    assert len({item.text for item in items}) == len(items)
    assert len({item.group for item in items}) >= 20
    for item in items:
        for number in (item.source, item.target, item.other):
            word = item.words[number]
            assert item.text[item.start(number) :].startswith(word)
        assert item.masked("[MASK]").replace("[MASK]", item.words[item.source]) == item.text
        assert item.wrong != item.words[item.source]
        assert item.target != item.other


def test_the_nearer_person_is_meant_as_often_as_not() -> None:
    assert np.mean([item.target > item.other for item in coreference()]) == 0.5
    assert np.mean([item.words[item.source] == "he" for item in coreference()]) == 0.5


@pytest.mark.parametrize("make", [agreement, reflexives, coreference])
def test_halves_share_no_people(make: Callable[[], list[Pointed]]) -> None:
    groups = [*dict.fromkeys(item.group for item in make())]
    people = [{person for group in groups[half::2] for person in group.split()} for half in (0, 1)]
    assert not people[0] & people[1]


def test_rank_correlations_are_those_of_scipy() -> None:
    generator = np.random.default_rng(2)
    for _ in range(50):
        first, second = generator.integers(0, 5, (2, 7)).astype(float)
        assert spearman(first, second) == pytest.approx(spearmanr(first, second).statistic)
    assert np.isnan(spearman(np.zeros(4), np.arange(4.0)))
