"""`align_words` beside double loops over the states, and alignments of states that are made for the purpose."""

from typing import Any

import bertscope
import bertscope_workbench as workbench
import numpy as np
import pytest

from tests.support.harness import Host

PAIRS = [
    ("The cat sat on the mat .", "On the mat a cat was sitting ."),
    ("Nobody waited .", "No one waited for unplayable recordings ."),
]


def looped(similarities: Any) -> set[tuple[int, int]]:
    """The mutual maxima, one cell at a time."""
    rows, columns = similarities.shape
    return {
        (row, column)
        for row in range(rows)
        for column in range(columns)
        if all(similarities[row, column] > similarities[row, other] for other in range(columns) if other != column)
        and all(similarities[row, column] > similarities[other, column] for other in range(rows) if other != row)
    }


def twice(cosines: Any) -> set[tuple[int, int]]:
    """Itermax, one cell at a time."""
    first = looped(cosines)
    again = (cosines + 1) / 2
    for row in range(len(again)):
        for column in range(len(again[0])):
            linked = any(link[0] == row for link in first), any(link[1] == column for link in first)
            again[row, column] *= {0: 1.0, 1: 0.9, 2: 0.0}[sum(linked)]
    return first | {link for link in looped(again) if again[link] > 0}


@pytest.mark.parametrize("method", ["argmax", "itermax"])
def test_links_are_those_of_double_loops(host: Host, method: Any) -> None:
    with bertscope.Client(host.target) as client:
        found = workbench.align_words(client, iter(PAIRS), layer=2, model="bert", method=method)

        def words(text: str) -> Any:
            spans, place = [], 0
            for word in text.split(" "):
                spans.append((place, place + len(word)))
                place += len(word) + 1
            (one,) = client.extract_hidden_states([bertscope.StatesInput(text, spans)], layers=2, unit="span", model="bert")
            states = one.states[0].astype(np.float64)
            return states / np.linalg.norm(states, axis=1, keepdims=True)

        cosines = [words(source) @ words(target).T for source, target in PAIRS]
    for alignment, expected, (source, target) in zip(found, cosines, PAIRS, strict=True):
        links = {link[:2] for link in alignment.links}
        assert links == (looped(expected) if method == "argmax" else twice(expected))
        assert (alignment.source_words, alignment.target_words) == (tuple(source.split(" ")), tuple(target.split(" ")))
        cosine = [expected[link[:2]] for link in alignment.links]
        np.testing.assert_allclose([link.similarity for link in alignment.links], cosine, atol=1e-5)
        assert alignment.pharaoh.split() == [f"{one}-{other}" for one, other in sorted(links)]
    assert len(found.to_pandas()) == sum(len(one.links) for one in found)


def test_a_pair_with_a_rejected_text_is_left_out(host: Host) -> None:
    long, told = "the cat " * 200, list[tuple[int, str]]()
    pairs = [PAIRS[0], (long, long), PAIRS[1], ("The cat", long)]
    with bertscope.Client(host.target) as client:
        found = workbench.align_words(
            client,
            pairs,
            layer=1,
            model="bert",
            on_rejected=lambda index, error: told.append((index, error.field_violations[0].field)),
        )
        alone = workbench.align_words(client, PAIRS, layer=1, model="bert")
        assert [one.index for one in found] == [0, 2]
        assert [one.pharaoh for one in found] == [one.pharaoh for one in alone]
        assert told == [(1, "pairs[1]"), (3, "pairs[3]")]
        with pytest.raises(bertscope.InvalidArgument, match=r"pairs\[1\]"):
            workbench.align_words(client, pairs, layer=1, model="bert")


@pytest.mark.parametrize(
    ("pairs", "more", "problem"),
    [
        ([], {}, "pairs: is empty"),
        ([("a", " ")], {}, r"pairs\[0\]: has a sentence without a word"),
        (["ab"], {}, r"pairs\[0\]: must be a pair"),
        ([("a", "b")], {"method": "best"}, "method"),
        ([("a", "b")], {"layer": -1}, "layer"),
        ([("a", "b")], {"layer": 99}, "layers"),
    ],
)
def test_bad_input(host: Host, pairs: Any, more: dict[str, Any], problem: str) -> None:
    with bertscope.Client(host.target) as client, pytest.raises(bertscope.InvalidArgument, match=problem):
        workbench.align_words(client, pairs, model="bert", **{"layer": 1, **more})


def test_scores_are_those_of_the_definition(host: Host) -> None:
    with bertscope.Client(host.target) as client:
        found = workbench.align_words(client, PAIRS, layer=2, model="bert")
    gold = [workbench.GoldAlignment.parse("0-1 1p4 6-7 2-6"), workbench.GoldAlignment.parse("")]
    scores = workbench.score_alignments(found, gold)
    links = {link[:2] for link in found[0].links}
    sure, possible = {(0, 1), (6, 7), (2, 6)}, {(0, 1), (6, 7), (2, 6), (1, 4)}
    size = len(links) + len(found[1].links)
    assert (scores.pairs, scores.found, scores.sure) == (2, size, 3)
    assert scores.precision == len(links & possible) / size
    assert scores.recall == len(links & sure) / 3
    assert scores.error_rate == 1 - (len(links & sure) + len(links & possible)) / (size + 3)
    assert scores == workbench.score_alignments(found[:1], gold) + workbench.score_alignments(found[1:], gold)
    exact = [workbench.GoldAlignment.parse(one.pharaoh) for one in found]
    assert (workbench.score_alignments(found, exact).f1, workbench.score_alignments(found, exact).error_rate) == (1.0, 0.0)
    for wrong, problem in ((gold[:1], "pair 1 needs one"), ([workbench.GoldAlignment.parse("9-0")] * 2, "links 9-0")):
        with pytest.raises(bertscope.InvalidArgument, match=problem):
            workbench.score_alignments(found, wrong)
    with pytest.raises(bertscope.InvalidArgument, match="is no link"):
        workbench.GoldAlignment.parse("0-0 1:2")
