"""Trees read off attention: spanning trees against all trees, attachment scores by hand, texts without a tree."""

from itertools import product

import numpy as np
import pytest
from bertscope.questions.attention.maps import AttentionMaps
from bertscope.questions.attention.marked_texts import RelationText
from bertscope.values.positions import Span
from bertscope.values.results import Provenance, Token
from bertscope_workbench.analyses.trees import TreeScores, by_words, gold_tree, piece_words, score_tree, spanning_tree
from numpy.typing import NDArray

SOURCE = Provenance("models/mini", "sha256:" + "0" * 64, "torch", "cpu", "fp32", {}, "zero_based")
TEXT = RelationText("The cat sleeps soundly.", [("det", 1, 0), ("nsubj", 2, 1), ("advmod", 2, 3)])


def pieces(*spans: tuple[str, int, int]) -> tuple[Token, ...]:
    words = [Token(text, 5, start, end, False, index, 0, ()) for index, (text, start, end) in enumerate(spans)]
    return (Token("[CLS]", 1, 0, 0, True, None, 0, ()), *words, Token("[SEP]", 2, 0, 0, True, None, 0, ()))


TOKENS = pieces(("the", 0, 3), ("cat", 4, 7), ("sleep", 8, 13), ("##s", 13, 14), ("soundly", 15, 22), (".", 22, 23))


def maps(attention: NDArray[np.float64], tokens: tuple[Token, ...] = TOKENS, text: str = "") -> AttentionMaps:
    layers, heads = attention.shape[:2]
    return AttentionMaps(0, text, None, tokens, attention, tuple(range(layers)), tuple(range(heads)), 0, SOURCE)


def looking(links: dict[int, int], size: int = 8) -> NDArray[np.float64]:
    """A map in which pieces attend to chosen ones, and all others to all alike."""
    found = np.full((size, size), 1 / size)
    for piece, seen in links.items():
        found[piece] = 0.1 / size
        found[piece, seen] += 0.9
    return found


def every_tree(count: int, root: int) -> list[list[int]]:
    """All trees over some words, by the slow way."""
    found = []
    for guess in product(range(count), repeat=count):
        governors = [-1 if word == root else governor for word, governor in enumerate(guess)]
        if guess[root] != 0 or any(governor == word for word, governor in enumerate(governors)):
            continue
        reached = {root}
        while more := {word for word in range(count) if word not in reached and governors[word] in reached}:
            reached |= more
        if len(reached) == count:
            found.append(governors)
    return found


@pytest.mark.parametrize("count", [2, 5])
def test_a_spanning_tree_is_the_best_of_all_trees(count: int) -> None:
    draw = np.random.default_rng(3)
    for root in range(count):
        weights = draw.dirichlet(np.ones(count), size=count)

        def worth(governors: list[int], weights: NDArray[np.float64] = weights) -> float:
            return sum(weights[word, governor] for word, governor in enumerate(governors) if governor >= 0)

        best = max(every_tree(count, root), key=worth)
        assert spanning_tree(weights, root) == best


def test_attachment_scores() -> None:
    """Head 0 looks at each word's governor; head 1 looks at each word's dependent; the mean of both is a layer's map."""
    right = looking({1: 2, 2: 3, 3: 0, 5: 3})
    turned = looking({2: 1, 3: 2, 4: 5, 1: 7, 5: 7})
    found = score_tree(TEXT, maps(np.array([[right, turned]])), by_head=True)
    assert (found.texts, found.skipped_texts, found.words) == (1, 0, 3)
    assert found.directed[0, 0] == found.undirected[0, 0] == 3
    assert found.undirected[0, 1] >= found.directed[0, 1]
    assert (found.previous, found.following) == (1, 2)
    assert (found.right_branching, found.left_branching) == (pytest.approx(1 / 3), pytest.approx(2 / 3))
    assert found.branching_undirected == 1
    assert found.heads == (0, 1)
    layers = score_tree(TEXT, maps(np.array([[right, right]])), by_head=False)
    assert layers.heads == ()
    assert layers.directed.tolist() == [[3]]


def test_maps_by_words_follow_clark() -> None:
    members = piece_words(TOKENS, [Span(*word) for word in TEXT.words or ()])
    assert members.tolist() == [-1, 0, 1, 2, 2, 3, 3, -1]
    weights = np.random.default_rng(1).dirichlet(np.ones(8), size=8)
    found = by_words(weights, members, [0, 1, 2, 3])
    assert found[1, 2] == pytest.approx(weights[2, 3] + weights[2, 4])
    assert found[2, 1] == pytest.approx((weights[3, 2] + weights[4, 2]) / 2)


NO_TREES = {
    "no pairs": [],
    "two governors": [("det", 1, 0), ("nsubj", 2, 0)],
    "circle": [("det", 1, 0), ("nsubj", 0, 1)],
    "two roots": [("det", 1, 0), ("advmod", 2, 3)],
}


def test_scores_of_texts_add_up_and_those_without_a_tree_are_counted(stored) -> None:
    none = []
    for name, pairs in NO_TREES.items():
        text = RelationText("The cat sleeps soundly.", pairs)
        assert gold_tree(text, np.arange(4)) is None, name
        none.append(score_tree(text, maps(np.full((1, 2, 8, 8), 1 / 8)), by_head=True))
    parts = [score_tree(TEXT, maps(np.array([[looking({1: 2, 2: 3})]])), by_head=True) for _ in range(3)]
    stored(
        whole=TreeScores.merge(parts),
        directed=TreeScores.merge(parts).directed_score(),
        of_no_tree=TreeScores.merge(none),
        without_a_piece=[gold_tree(TEXT, np.array(words)) for words in ([1, 2, 3], [0, 2, 3])],
        nothing=lambda: TreeScores.merge([]),
    )
