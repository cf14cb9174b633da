"""Analyses by several calls beside loops over what a real server answers: links, ranks, code lengths, trees, neighbours."""

import math
import random
from typing import Any

import bertscope
import bertscope_workbench as workbench
import numpy as np
import pytest
from bertscope import RelationText, TextsProgress
from bertscope_workbench.analyses.code_length import coded_texts
from bertscope_workbench.analyses.trees import score_tree

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


SOURCES = ["The cat sat on the mat.", "Nobody waited.", "It is late now.", "Dogs bark at night."]
TARGETS = ["A cat was on a mat.", "No one waited.", "It is late.", "At night dogs bark."]


def ranked(sources: list[Any], targets: list[Any], centred: bool) -> list[list[int]]:
    """Ranks of the right target of each source, layer by layer, one distance at a time."""
    ranks = []
    for layer in range(len(sources[0])):
        one, other = ([np.float64(vector[layer]) for vector in side] for side in (sources, targets))
        if centred:
            one, other = ([vector - sum(side) / len(side) for vector in side] for side in (one, other))
        distances = [[float(np.linalg.norm(a - b)) for b in other] for a in one]
        ranks.append([1 + sum(far < row[place] for far in row) for place, row in enumerate(distances)])
    return ranks


@pytest.mark.parametrize("pooling", ["mean", "first"])
@pytest.mark.parametrize("centred", [True, False])
def test_ranks_are_those_of_double_loops(host: Host, pooling: Any, centred: bool) -> None:
    with bertscope.Client(host.target) as client:

        def vectors(texts: list[str]) -> list[Any]:
            found = client.extract_hidden_states(texts, model="bert")
            return [one.states[:, 0] if pooling == "first" else one.states[:, 1:-1].mean(axis=1) for one in found]

        found = workbench.retrieve_sentences(client, iter(SOURCES), TARGETS, model="bert", pooling=pooling, centred=centred)
        one, other = vectors(SOURCES), vectors(TARGETS)
    assert found.forward_ranks[1:].tolist() == ranked(one, other, centred)[1:]
    assert found.backward_ranks[1:].tolist() == ranked(other, one, centred)[1:]
    if pooling == "first":  # All have the same [CLS] in the embeddings: nothing but ties.
        assert (found.forward_ranks[0].tolist(), found.forward_ties[0]) == ([4] * 4, 4)
    right = (found.forward == np.arange(4))[1:]
    np.testing.assert_array_equal(right, found.forward_ranks[1:] == 1)
    np.testing.assert_allclose(found.accuracy()[1:], right.mean(axis=1))
    assert all(low <= share <= high for share, (low, high) in zip(found.accuracy(), found.intervals(), strict=True))
    assert (found.pooling, found.centred, found.chance) == (pooling, centred, 0.25)
    assert found.to_pandas().shape == (2 * len(found.layers), 8)


NAMES = ["city", "cat", "old", "garden", "the"]


def texts(label: Any, count: int = 240) -> list[bertscope.ProbeText]:
    """Texts of three words each."""
    draw, found = random.Random(1), []
    for _ in range(count):
        words = [draw.choice(NAMES) for _ in range(3)]
        starts = [sum(len(word) + 1 for word in words[:place]) for place in range(3)]
        labels = [(label(word, draw), start, start + len(word)) for word, start in zip(words, starts, strict=True)]
        found.append(bertscope.ProbeText(" ".join(words), labels))
    return found


@pytest.mark.slow
def test_the_code_is_that_of_its_definition(host: Host) -> None:
    """The sum of what the probes of each part give, one training at a time."""
    given, dev = texts(lambda word, draw: word), texts(lambda word, draw: word, 20)
    coded = coded_texts(given, dev, 3)
    names = sorted(NAMES)
    with bertscope.Client(host.target) as client:
        found = workbench.measure_code_length(client, given, dev=dev, labels=names, model="bert", layers=[1], seed=3)
        bits = sum(len(text.labels) for text in coded.texts[: coded.ends[0]]) * math.log2(5)
        for begin, end in zip(coded.ends[:-1], coded.ends[1:], strict=True):
            asked = {"test": coded.texts[begin:end], "labels": names, "model": "bert", "layers": [1], "seed": 3}
            probes = client.train_probe(coded.texts[:begin], dev=dev, **asked)
            bits += probes.layer(1).loss * probes.part.spans / math.log(2)
    assert found.layers[0].bits == pytest.approx(bits, rel=1e-4)
    assert found.spans == 3 * len(given) and found.parts[-1] == len(given)


def test_parts_grow_from_the_first_two_classes() -> None:
    given = [bertscope.ProbeText("a b", [("x" if number else "y", 0, 1)]) for number in range(2000)]
    coded = coded_texts(given, given[:5], 0)
    assert len({text.labels[0][0] for text in coded.texts[: coded.ends[0]]}) == 2
    assert coded.ends[-1] == 2000 and list(coded.ends) == sorted(set(coded.ends))
    assert coded_texts(texts(lambda word, draw: word, 1000), (), 0).ends == (1, 2, 4, 8, 15, 29, 57, 113, 225, 450, 900)
    for few in ([], given[1:], given[:2]):
        with pytest.raises(bertscope.InvalidArgument, match="are too few"):
            coded_texts(few, (), 0)


TREES = [
    RelationText("The cat sleeps.", [("det", 1, 0), ("nsubj", 2, 1)]),
    RelationText("Nobody waited for the unplayable song.", [("x", 1, 0), ("x", 5, 2), ("x", 5, 3), ("x", 5, 4), ("x", 1, 5)]),
    RelationText("No tree at all.", [("x", 1, 0), ("x", 0, 1)]),
]


def test_trees_are_those_of_the_maps_that_are_streamed(host: Host) -> None:
    done: list[TextsProgress] = []
    with bertscope.Client(host.target) as client:
        found = workbench.score_trees(client, TREES, layers=[2, 0], by_head=True, on_progress=done.append)
        maps = [*client.extract_attention([text.text for text in TREES], layers=[2, 0])]
        layers = workbench.score_trees(client, TREES, layers=[2, 0])
    parts = [score_tree(text, own, by_head=True) for text, own in zip(TREES, maps, strict=True)]
    assert (found.layers, found.heads, found.texts, found.skipped_texts, found.words) == ((2, 0), (0, 1, 2, 3), 2, 1, 7)
    np.testing.assert_array_equal(found.directed, sum(part.directed for part in parts))
    np.testing.assert_array_equal(found.undirected, sum(part.undirected for part in parts))
    assert (found.directed <= found.undirected).all()
    assert [each.done for each in done] == [1, 2, 3]
    assert (layers.heads, layers.directed.shape) == ((), (2, 1))


CATS = ["The cat sat on the mat.", "Nobody waited.", ("A cat?", "The CAT sat."), "The cat sat on the mat."]


def test_neighbours_of_words_of_texts_and_pairs(host: Host) -> None:
    heard: list[bertscope.TextsProgress] = []
    with bertscope.Client(host.target) as client:
        found = workbench.nearest_neighbours(client, CATS, "Cat", k=2, layers=[0, 4], on_progress=heard.append)
    assert (found.texts, heard[-1].done) == (4, 4)
    places = [(one.occurrence.input_index, one.occurrence.token.segment) for one in found.found]
    assert places == [(0, 0), (2, 0), (2, 1), (3, 0)]
    # The first and the last text are the same, so that their cats have the same states.
    for one, other in ((found.found[0], 3), (found.found[3], 0)):
        near = one.neighbours[4][0]
        assert (near.occurrence.input_index, near.occurrence.token.text) == (other, "cat")
        assert near.cosine == pytest.approx(1, abs=1e-5)
