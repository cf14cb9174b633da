"""Analyses that call a server several times leave out what it rejects, by the caller's number, and name bad input."""

from collections.abc import Callable, Sequence
from typing import Any

import bertscope
import bertscope_workbench as workbench
import numpy as np
import pytest

from tests.support.harness import Host

LONG = "the cat " * 200
PAIRS = [
    ("The cat sat on the mat .", "On the mat a cat was sitting ."),
    ("Nobody waited .", "No one waited for unplayable recordings ."),
    ("Dogs bark at night .", "At night dogs bark ."),
]
TREES = [
    bertscope.RelationText("The cat sleeps.", [("det", 1, 0), ("nsubj", 2, 1)]),
    bertscope.RelationText("No tree at all.", [("x", 1, 0), ("x", 0, 1)]),
    bertscope.RelationText("The dog sleeps.", [("det", 1, 0), ("nsubj", 2, 1)]),
]

Ask = Callable[..., Any]
ANALYSES: dict[str, tuple[list[Any], list[Any], Ask, Callable[[Any], Any], str]] = {
    "align_words": (
        PAIRS,
        [(LONG, LONG), ("The cat", LONG)],
        lambda client, pairs, **more: workbench.align_words(client, pairs, layer=1, **more),
        lambda found: [one.pharaoh for one in found],
        "pairs[{}]",
    ),
    "retrieve_sentences": (
        PAIRS,
        [(LONG, "a cat"), ("a cat", LONG)],
        lambda client, pairs, **more: workbench.retrieve_sentences(
            client, *map(list, zip(*pairs, strict=True)), layers=4, **more
        ),
        lambda found: found.forward_ranks.tolist(),
        "s[{}]",  # of sources, or of targets
    ),
    "score_trees": (
        TREES,
        [bertscope.RelationText(LONG, [("x", 0, 1)])] * 2,
        workbench.score_trees,
        lambda found: [found.texts, found.skipped_texts, found.directed.tolist()],
        "inputs[{}]",
    ),
    "nearest_neighbours": (
        ["The cat sat on the mat.", "Nobody waited.", ("A cat?", "The CAT sat.")],
        [LONG, ("a cat", LONG)],
        lambda client, texts, **more: workbench.nearest_neighbours(client, texts, "Cat", k=2, layers=[0, 4], **more),
        lambda found: [[near.cosine for near in one.neighbours[4]] for one in found.found],
        "inputs[{}]",
    ),
    "describe_attention": (
        ["The cat sat.", "Nobody waited.", ("A pair?", "Yes, a pair.")],
        [LONG, (LONG, LONG)],
        lambda client, texts, **more: client.describe_attention(texts, **more),
        lambda found: [found.texts, *found.mean("previous").ravel()],
        "inputs[{}]",
    ),
}
"""Items that are taken, items that the server rejects, the analysis, what it finds, and the field of an item."""


def mixed(good: Sequence[Any], bad: Sequence[Any]) -> list[Any]:
    return [bad[0], good[0], bad[1], *good[1:]]


@pytest.mark.parametrize("name", ANALYSES)
def test_rejected_texts_are_told_by_their_number_and_left_out(host: Host, name: str) -> None:
    good, bad, analyse, found_of, field = ANALYSES[name]
    told: list[tuple[int, bertscope.InvalidArgument]] = []
    with bertscope.Client(host.target) as client:
        alone = found_of(analyse(client, good))
        found = analyse(client, mixed(good, bad), on_rejected=lambda *what: told.append(what))
        with pytest.raises(bertscope.InvalidArgument) as caught:
            analyse(client, mixed(good, bad))
    assert sorted(number for number, _ in told) == [0, 2]
    for number, error in told:
        assert field.format(number) in error.field_violations[0].field
    assert field.format(0) in caught.value.field_violations[0].field
    for one, same in zip(found_of(found), alone, strict=True):
        assert one == same or np.allclose(one, same, rtol=0, atol=1e-5)


REFUSED: list[tuple[Ask, str]] = [
    (lambda client: workbench.align_words(client, [], layer=1), "pairs: is empty"),
    (lambda client: workbench.align_words(client, [("a", " ")], layer=1), r"pairs\[0\]: has a sentence without a word"),
    (lambda client: workbench.align_words(client, ["ab"], layer=1), r"pairs\[0\]: must be a pair"),
    (lambda client: workbench.align_words(client, [("a", "b")], layer=1, method="best"), "method"),
    (lambda client: workbench.align_words(client, [("a", "b")], layer=-1), "layer"),
    (lambda client: workbench.align_words(client, [("a", "b")], layer=99), "layers"),
    (lambda client: workbench.retrieve_sentences(client, ["a", "b"], ["c"]), "targets: has 1 sentences, sources 2"),
    (lambda client: workbench.retrieve_sentences(client, [], []), "sources"),
    (lambda client: workbench.retrieve_sentences(client, ["a", "b"], ["c", "d"], layers=99), "layers"),
    (lambda client: workbench.retrieve_sentences(client, ["a", "b"], ["c", "d"], pooling="last"), "pooling"),
    (lambda client: workbench.score_trees(client, [TREES[0], bertscope.RelationText("a b", [])][1:]), "have no pairs"),
    (lambda client: workbench.nearest_neighbours(client, ["The cat sat."], "zebra"), r"words\[0\]: is a word of no text"),
    (lambda client: list(client.extract_hidden_states([])), "give at least one text"),
]


@pytest.mark.parametrize(("ask", "said"), REFUSED)
def test_bad_input_is_an_error_of_its_field(host: Host, ask: Ask, said: str) -> None:
    with bertscope.Client(host.target) as client, pytest.raises(bertscope.InvalidArgument, match=said):
        ask(client)


@pytest.mark.parametrize("name", ["score_trees", "describe_attention"])
def test_if_every_text_is_rejected_that_is_said(host: Host, name: str) -> None:
    _, bad, analyse, _, _ = ANALYSES[name]
    with bertscope.Client(host.target) as client, pytest.raises(bertscope.InvalidArgument, match="every text was rejected"):
        analyse(client, bad, on_rejected=lambda *_: None)
