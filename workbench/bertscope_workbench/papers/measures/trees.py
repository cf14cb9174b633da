"""Measures whether states and heads hold the trees of sentences, and whether a probe takes the tree's rule or the order's."""

from typing import Literal

import numpy as np
from bertscope import StructuralProbeResult

from bertscope_workbench.analyses.trees import score_trees
from bertscope_workbench.papers.asking import Asking
from bertscope_workbench.papers.estimates import Measured, halves, paired, shares
from bertscope_workbench.papers.items.generated import auxiliary_texts
from bertscope_workbench.papers.items.treebank import PARTS, bank_of
from bertscope_workbench.papers.measures.probing import Third, thirds_of, train_and_apply
from bertscope_workbench.papers.pictures_data import ACROSS, Curves, curves, grid
from bertscope_workbench.readers.treebanks import relation_text, tree_text

CHOOSING, SCORED = 24, 60
"""Sentences that the best head is chosen on, and scored on."""
TRAINED = 400
"""The most sentences that structural probes are trained on."""


def trees_in_states(asking: Asking, *, above: Literal["chain", "embeddings"] = "chain") -> Measured:
    """Measures the share of trees' edges that the best layer's structural probe finds, beside a chain or the embeddings' probe.

    It is the UUAS of Hewitt and Manning (2019). The layer is the best one on the dev part. The interval is Wilson's with a
    sentence as one item: shares of sentences vary no more than a coin with the same mean.
    """
    found = _structural(asking)
    best = found.layer(found.best_layer).score
    control = found.chain_score if above == "chain" else found.layers[0].score
    return _of_sentences(best, control, found, asking, f"best layer on the dev part: {found.best_layer}")


def trees_by_third(asking: Asking, *, first: Third, second: Third) -> Measured:
    """Measures the mean UUAS of a third of the states, beside another third; its interval is as in `trees_in_states`."""
    found = _structural(asking)
    thirds = dict(zip(("lower", "middle", "upper"), thirds_of(len(found.layers)), strict=True))
    own, other = (float(np.mean([found.layers[place].score for place in thirds[third]])) for third in (first, second))
    return _of_sentences(own, other, found, asking, f"{first} third: {thirds[first]}, {second} third: {thirds[second]}")


def _of_sentences(value: float, control: float, found: StructuralProbeResult, asking: Asking, note: str) -> Measured:
    sentences = found.part.used_texts
    hits = np.arange(sentences) < round(value * sentences)
    return shares(
        hits, control, data=f"{found.part.total:,} edges of {sentences} test {bank_of(asking).source}",
        picture=_by_layer(found), notes=(note, "a sentence counts as one item: the interval is too wide, not too narrow"),
    )  # fmt: skip


def _by_layer(found: StructuralProbeResult) -> Curves:
    lines = {"probe": [one.score for one in found.layers], "random projection": [one.control_score for one in found.layers]}
    lines["words in a chain"] = [found.chain_score] * len(found.layers)
    return curves(ACROSS, [one.layer for one in found.layers], "share of edges", lines)


def _structural(asking: Asking) -> StructuralProbeResult:
    def make() -> StructuralProbeResult:
        bank = bank_of(asking)
        parts = (bank.train[:TRAINED], bank.dev, bank.test)
        train, dev, test = ([tree_text(sentence) for sentence in part] for part in parts)
        return asking.client.train_structural_probe(
            train, dev=dev, test=test, model=asking.model, truncate=True, on_progress=asking.hear, timeout=asking.timeout
        )

    return asking.kept("structural probes", make)


def trees_in_heads(asking: Asking) -> Measured:
    """Measures the share of words that the tree of the best head links with their governor, beside linking neighbours.

    The head is chosen on other sentences (Raganato and Tiedemann 2018; Htut et al. 2019). Items are sentences.
    """
    sentences = [relation_text(sentence) for sentence in bank_of(asking).test]
    choosing, scored = sentences[:CHOOSING], sentences[CHOOSING : CHOOSING + SCORED]
    by_head = score_trees(asking.client, choosing, model=asking.model, by_head=True, **asking.arguments())
    scores = by_head.undirected_score()
    row, column = np.unravel_index(int(np.nanargmax(scores)), scores.shape)
    layer, head = by_head.layers[row], by_head.heads[column]
    own, base = [], []
    for sentence in scored:
        one = score_trees(
            asking.client, sentence, model=asking.model, layers=[layer], heads=[head], by_head=True, timeout=asking.timeout
        )
        own.append(float(one.undirected_score()[0, 0]))
        base.append(one.branching_undirected)
    return paired(
        own, base, bounds=(-1, 1), data=f"{len(own)} test {bank_of(asking).source}",
        picture=grid(scores.tolist(), "share of words linked with their governor"),
        notes=(f"head {layer}:{head} is the best of {scores.size} on {len(choosing)} other sentences",),
    )  # fmt: skip


def main_auxiliary(asking: Asking, *, above: Literal["chance", "embeddings"] = "chance") -> Measured:
    """Measures how often a probe that learned the main auxiliary where it comes first is right where it comes second.

    There it follows a relative clause (Lin et al. 2019, section 4). Of the two auxiliaries of a sentence, the rule of the tree
    gets both right, the rule of the order none, and one answer for all a half. The layer is the
    best one on half of the sentences, scored on the other half. Items are sentences.
    """
    train, dev, test = map(auxiliary_texts, PARTS)
    of = asking.kept("probe of main auxiliaries", lambda: train_and_apply(asking, "main auxiliary", train, dev, test))
    by_sentence = of.right.reshape(len(of.right), -1, 2).mean(2)  # both auxiliaries: one answer for all scores a half
    choosing, scored = halves(by_sentence.shape[1])
    best = int(by_sentence[:, choosing].mean(1).argmax())
    lines = {"relative clause first": by_sentence.mean(1).tolist(), "chance": [0.5] * len(by_sentence)}
    return paired(
        by_sentence[best, scored], 0.5 if above == "chance" else by_sentence[0, scored], bounds=(-1, 1),
        data=f"{len(scored)} sentences of our own with a relative clause (licence of the project)",
        picture=curves(ACROSS, list(range(len(by_sentence))), "share right", lines),
        notes=(f"best layer on the other half: {best}",),
    )  # fmt: skip
