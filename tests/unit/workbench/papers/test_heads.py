"""Heads are chosen on other items than they are scored on, and sets of heads are spread over the layers."""

from collections import Counter
from types import SimpleNamespace
from typing import Any, cast, get_args

import numpy as np
import pytest
from bertscope_workbench.papers.asking import Asking
from bertscope_workbench.papers.estimates import NotAsked
from bertscope_workbench.papers.items import Data
from bertscope_workbench.papers.items.pointing import Kind, pointed
from bertscope_workbench.papers.measures import attributing, numbers, pointing, probing, relations
from bertscope_workbench.papers.measures.attributing import spearman
from bertscope_workbench.papers.measures.sentences import crossed, head_names
from bertscope_workbench.papers.measures.silencing import spread_sets
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


@pytest.mark.parametrize("kind", get_args(Kind))
def test_words_point_where_the_text_says(kind: Kind) -> None:
    items = pointed(kind)
    assert len({item.text for item in items}) == len(items)
    assert len({item.group for item in items}) >= 20
    for item in items:
        for number in (item.source, item.target, item.other):
            word = item.words[number]
            assert item.text[item.start(number) :].startswith(word)
        assert item.masked("[MASK]").replace("[MASK]", item.words[item.source]) == item.text
        assert item.wrong != item.words[item.source]
        assert item.target != item.other


@pytest.mark.parametrize("kind", get_args(Kind))
def test_the_nearer_word_is_meant_as_often_as_not(kind: Kind) -> None:
    assert np.mean([item.target > item.other for item in pointed(kind)]) == 0.5


@pytest.mark.parametrize("kind", ["agreement", "reflexives"])
def test_distances_vary_and_are_those_of_the_other_word(kind: Kind) -> None:
    items = pointed(kind)
    assert len({item.source - item.target for item in items}) >= 6
    for group in {item.group for item in items}:
        own = [item for item in items if item.group == group]
        assert sorted(item.source - item.target for item in own) == sorted(item.source - item.other for item in own)


def test_he_is_as_frequent_as_she() -> None:
    assert np.mean([item.words[item.source] == "he" for item in pointed("coreference")]) == 0.5


@pytest.mark.parametrize("kind", get_args(Kind))
def test_halves_share_no_people(kind: Kind) -> None:
    groups = [*dict.fromkeys(item.group for item in pointed(kind))]
    people = [{person for group in groups[half::2] for person in group.split()} for half in (0, 1)]
    assert not people[0] & people[1]


def test_rank_correlations_are_those_of_scipy() -> None:
    generator = np.random.default_rng(2)
    for _ in range(50):
        first, second = generator.integers(0, 5, (2, 7)).astype(float)
        assert spearman(first, second) == pytest.approx(spearmanr(first, second).statistic)
    assert np.isnan(spearman(np.zeros(4), np.arange(4.0)))


def asking_with(key: str, answer: Any, limit: int | None = None) -> Asking:
    """Returns the means of a measure that has an answer already: it asks no server."""
    asking = Asking(cast(Any, None), cast(Any, None), data=Data(limit=limit))
    asking.kept(key, lambda: answer)
    return asking


def test_what_is_not_there_is_asked_of_the_best_head() -> None:
    """Of three heads one points, one points to the other word, which cancels it in a mean, and one looks four words back."""
    items = pointed("agreement")
    weights = np.full((len(items), 2, 1, 3), 0.1)
    weights[:, 0, 0, 1] = weights[:, 1, 0, 0] = 0.9
    for row, item in zip(weights, items, strict=True):
        row[:, 0, 2] = [0.9 if item.source - place == 4 else 0.1 for place in (item.target, item.other)]
    found = pointing.attention_to_target(asking_with("pointing agreement", weights), kind="agreement")
    assert (found.value, found.control) == (pytest.approx(0.9), 0.5)
    assert found.notes[0].endswith("both ways: 0:1")
    assert found.notes[1] == "of its attention it gives 90.0 % to the right word and 10.0 % to the other"
    positional = weights[..., [0, 2]]
    found = pointing.attention_to_target(asking_with("pointing agreement", positional), kind="agreement")
    assert found.value == pytest.approx(0.5)


def test_numbers_outside_are_asked_of_the_layer_that_reads_them_best() -> None:
    """Numbers that end training lie inside of the range: they name another layer."""
    count = 34
    texts = SimpleNamespace(groups=[*range(count)], test=range(count), train=range(60))
    layers = [
        SimpleNamespace(layer=layer, errors=np.full(count, error), r_squared=0.0) for layer, error in ((0, 9.0), (1, 0.1))
    ]
    found = SimpleNamespace(best_layer=0, layer=layers.__getitem__, layers=layers, squares=np.ones(count))
    measured = numbers.read_out(asking_with("numbers beyond", (texts, found)), kind="beyond")
    assert measured.value == pytest.approx(0.9)
    assert measured.notes[0].endswith("both ways: layer 1")


def test_every_layer_is_asked_of_the_worst_one() -> None:
    right = np.ones((7, 40), bool)
    right[:2] = False  # below the first third's end, which the claim leaves out
    right[5, ::2] = False
    layers = [SimpleNamespace(layer=layer, accuracy=0.0) for layer in range(7)]
    of = probing.Probed(
        "role", cast(Any, SimpleNamespace(best_layer=3, layers=layers)), right, tuple(map(str, np.arange(40) // 2))
    )
    found = probing.worst_beside_best(asking_with("probe of role", of, limit=20), task="role")
    assert (found.value, found.control, found.items) == (0.5, 1, 20)
    assert found.notes[1].endswith("both ways: layer 5")


def test_attention_that_explains_little_is_the_best_head_or_layer() -> None:
    """Each of two heads has one half of the order of words, and their mean has all of it."""
    rows = np.array([[0.5, 0.0, 0.3, 0], [0.1, 0.5, 0.0, 0]])
    tokens = [SimpleNamespace(special=False, start=start) for start in (0, 2, 4, 6)]
    maps = SimpleNamespace(tokens=tokens, attention=np.broadcast_to(rows[None, :, None], (1, 2, 4, 4)))
    found = SimpleNamespace(
        text="a b c [MASK]", values=np.array([3.0, 2, 1]), units=[SimpleNamespace(start=start) for start in (0, 2, 4)]
    )
    asking = asking_with("shapley", [found] * 20)
    asking.client = cast(Any, SimpleNamespace(extract_attention=lambda *_, **__: [maps]))
    asking.model = cast(Any, SimpleNamespace(layers=1, heads=2, mask_token="[MASK]"))
    measured = attributing.correlation(asking, of="best attention")
    assert measured.value == pytest.approx(1)
    assert measured.notes[0].endswith("both ways: mean of layer 0")


def test_weights_beside_chance_are_of_the_head_that_has_most_beyond_it() -> None:
    """Of two heads one has much weight wherever words are as far apart, and one half of it, between the words alone."""

    def score() -> SimpleNamespace:
        weights, chance = np.array([[0.8, 0.4]]), np.array([[0.8, 0.0]])
        return SimpleNamespace(
            pairs=1, chance_pairs=1, offsets={-1: 1}, accuracy=lambda _: weights,
            largest_weight=lambda _: weights, largest_weight_by_chance=lambda _: chance,
        )  # fmt: skip

    asking = asking_with("scored False", ([{"nsubj": score()} for _ in range(20)], "sentences"))
    found = relations.largest_weight(asking, relation="nsubj", beside_chance=True)
    assert (found.value, found.control) == (pytest.approx(0.4), 0)
    assert relations.largest_weight(asking, relation="nsubj").value == pytest.approx(0.8)
