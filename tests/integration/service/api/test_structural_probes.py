"""TrainStructuralProbe through gRPC; its training and its scores beside plain implementations of both."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from bertscope.v1 import representation_structural_probes_pb2 as structural
from bertscope.v1.representation_probes_pb2 import ProbeProgress
from bertscope_service.analyses.tree_probes import Tree
from bertscope_service.probing.structural import BATCH, Forest, Quantity, StructuralProbes, StructuralSize
from bertscope_service.probing.tree_scores import Tally
from numpy.typing import NDArray
from scipy.sparse.csgraph import minimum_spanning_tree, shortest_path
from scipy.stats import spearmanr

from tests.support.harness import Host
from tests.support.patience import granted

CPU = torch.device("cpu")
WORDS = ["cat", "mat", "dog", "the", "a", "on", "of", "in"]
Request = structural.TrainStructuralProbeRequest


def random_heads(generator: np.random.Generator, words: int) -> list[int]:
    """Heads of a random tree, numbers from 1, 0 of the root."""
    order = generator.permutation(words) + 1
    heads = [0] * words
    for index in range(1, words):
        heads[order[index] - 1] = int(order[generator.integers(index)])
    return heads


def texts(count: int, seed: int, words: int = 7) -> list[structural.TreeText]:
    generator = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        text = structural.TreeText()
        heads = random_heads(generator, words)
        for word, head in zip(generator.choice(WORDS, size=words), heads, strict=True):
            start = len(text.input.text) + bool(text.input.text)
            text.input.text += f" {word}" if start else word
            text.words.add(span={"start": start, "end": start + len(word)}, head=head)
        found.append(text)
    return found


TRAIN, DEV, TEST = texts(30, 1), texts(8, 2), texts(8, 3)


def request(**fields: Any) -> Request:
    return Request(**{"train": TRAIN, "dev": DEV, "test": TEST, "max_epochs": 3, "rank": 8} | fields)


def train(host: Host, **fields: Any) -> tuple[list[structural.StructuralProbeProgress], structural.StructuralProbeReport]:
    responses = list(host.representation.TrainStructuralProbe(request(**fields), timeout=granted(60)))
    assert [one.WhichOneof("event") for one in responses] == ["progress"] * (len(responses) - 1) + ["report"]
    return [one.progress for one in responses[:-1]], responses[-1].report


@pytest.mark.parametrize("quantity", ["DISTANCE", "DEPTH"])
def test_a_report_counts_what_there_is_to_find(host: Host, quantity: str) -> None:
    marked = [structural.TreeText() for _ in TEST]
    for text, copy in zip(TEST, marked, strict=True):
        copy.CopyFrom(text)
        copy.words[0].punctuation = True
        copy.words.add(head=1)  # in the tree, without a place
        copy.words.add(span=copy.words[0].span)  # outside the tree
    progress, report = train(host, quantity=f"QUANTITY_{quantity}", seeds=2, layers=[4, 0], test=marked)
    assert [layer.layer for layer in report.layers] == [0, 4]
    assert [run.seed for run in report.layers[0].probes] == [0, 1]
    assert (report.test.used_texts, report.test.words, report.test.correlated_texts) == (8, 56, 8)
    heads = [[word.head for word in text.words] for text in TEST]
    edges = sum(bool(head) and head != 1 for own in heads for head in own[1:])
    assert report.test.total == (edges if quantity == "DISTANCE" else sum(own[0] != 0 for own in heads))
    for layer in report.layers:
        for run in (*layer.probes, *layer.projections):
            assert 0 <= run.test.correct <= report.test.total
            assert -1 <= run.test.spearman <= 1
    assert report.chain.test.correct == (
        sum(abs(head - number) == 1 for own in heads for number, head in enumerate(own[1:], 2) if head > 1)
        if quantity == "DISTANCE"
        else sum(own[1] == 0 for own in heads)
    )
    assert (report.rank, progress[-1].stage, progress[-1].done) == (8, ProbeProgress.STAGE_TRAINING, 3)
    assert 0 < progress[-1].best_dev_loss <= report.layers[0].probes[0].dev.loss


def grown(generator: np.random.Generator, words: int, begin: int) -> Tree:
    heads = np.array(random_heads(generator, words)) - 1
    root = int(np.flatnonzero(heads < 0)[0])
    heads[root] = root
    return Tree(heads, np.arange(words), np.zeros(words, dtype=np.bool_), begin)


def distances_of(tree: Tree) -> NDArray[np.float64]:
    edges = np.zeros((len(tree.heads), len(tree.heads)))
    edges[np.arange(len(tree.heads)), tree.heads] = 1
    return shortest_path(edges, directed=False)


@pytest.mark.slow
@pytest.mark.parametrize("quantity", Quantity)
def test_training_is_that_of_a_plain_loop(quantity: Quantity) -> None:
    """Two layers of different states, texts of different lengths in parts: torch.optim.Adam on single pairs agrees to 1e-4."""
    generator = np.random.default_rng(5)
    trees, begin = [], 0
    for words in generator.integers(2, 9, size=30).tolist():
        trees.append(grown(generator, words, begin))
        begin += words
    states = torch.from_numpy(generator.normal(size=(begin, 2, 12)).astype(np.float32) / 4)
    size = StructuralSize(2, 12, 1, 4)
    probes = StructuralProbes(size, quantity, (7,), CPU, max_epochs=9, patience=9)
    plain = torch.nn.Parameter(probes.maps[:, :, 0].clone())
    optimizer = torch.optim.Adam([plain], lr=float(probes._rate[0, 0, 0, 0]))

    def rows(part: list[Tree]) -> torch.Tensor:
        return torch.cat([states[tree.begin : tree.begin + len(tree)] for tree in part])

    def plain_loss(part: list[Tree]) -> torch.Tensor:
        total = torch.zeros(2)
        for tree, layer in itertools.product(part, range(2)):
            gold, root = distances_of(tree), tree.root
            mapped = states[tree.begin : tree.begin + len(tree), layer] @ plain[layer]
            for word in range(len(tree)):
                if quantity is Quantity.DEPTH:
                    total[layer] += (gold[word, root] - mapped[word].square().sum()).abs() / len(tree)
                else:
                    away = (mapped - mapped[word]).square().sum(dim=1)
                    total[layer] += (torch.from_numpy(gold[word]) - away).abs().sum() / len(tree) ** 2
        return total / len(part)

    losses = []
    for _ in range(4):
        for first in range(0, len(trees), BATCH):
            batch = trees[first : first + BATCH]
            for part in (batch[:5], batch[5:]):
                probes.accumulate(rows(part), Forest.of(part, quantity, CPU), len(batch))
            probes.update()
            optimizer.zero_grad()
            plain_loss(batch).sum().backward()
            optimizer.step()
        forest = Forest.of(trees, quantity, CPU)
        found = forest.errors(probes.predict(rows(trees), forest, probes.maps)).mean(dim=-1)[:, 0]
        with torch.no_grad():
            torch.testing.assert_close(found, plain_loss(trees), atol=1e-4, rtol=1e-4)
        losses.append(found.sum().item())
    assert losses[-1] < losses[0]


def test_scores_are_those_of_scipy() -> None:
    generator = np.random.default_rng(8)
    tally, correct, by_length = Tally((1, 1)), 0, {4: [], 5: [], 6: []}
    for words in (5, 6, 6, 4):
        full = grown(generator, words + 1, 0)
        root = int(np.flatnonzero(full.heads == np.arange(words + 1))[0])
        nodes = np.delete(np.arange(words + 1), (root + 1) % (words + 1))  # a word of the tree has no state
        punctuation = np.arange(words) == words - 1
        tree = Tree(full.heads, nodes, punctuation, 0)
        gold = distances_of(full)[np.ix_(nodes, nodes)].astype(np.float32)
        np.testing.assert_array_equal(Forest.of([tree], Quantity.DISTANCE, CPU).gold[0], gold)
        np.testing.assert_array_equal(
            Forest.of([tree], Quantity.DEPTH, CPU).gold[0], distances_of(full)[nodes, root].astype(np.float32)
        )
        predicted = generator.random((words, words)).astype(np.float32)
        predicted += predicted.T
        np.fill_diagonal(predicted, 0)
        tally.add(tree, predicted[None, None], gold)
        by_length[words].append(np.mean([spearmanr(*rows).statistic for rows in zip(predicted, gold, strict=True)]))
        least = minimum_spanning_tree(predicted[:-1, :-1]).nonzero()
        correct += (gold[least] == 1).sum()
    score = tally.score()
    assert score.correct[0, 0] == correct
    assert score.spearman[0, 0] == pytest.approx(np.mean([np.mean(by_length[5]), np.mean(by_length[6])]))
