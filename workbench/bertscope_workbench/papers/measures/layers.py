"""Measures which layers hold alike states, along how many directions, and where the masked-LM head predicts a masked word."""

import math
from typing import Literal

import numpy as np
from bertscope.values.display import record

from bertscope_workbench.papers.asking import Asking
from bertscope_workbench.papers.estimates import Measured, NotAsked, paired
from bertscope_workbench.papers.items.contrasts import MASK
from bertscope_workbench.papers.items.treebank import bank_of, given_bank
from bertscope_workbench.papers.measures.attributing import spearman
from bertscope_workbench.papers.measures.contexts import GROUP, likeness
from bertscope_workbench.papers.measures.fillings import log_probabilities
from bertscope_workbench.papers.measures.probing import thirds_of
from bertscope_workbench.papers.measures.sentences import WORD, Values, masked_words, sentences, source
from bertscope_workbench.papers.pictures_data import ACROSS, Grid, curves, grid
from bertscope_workbench.readers.conllu import Sentence
from bertscope_workbench.readers.treebanks import UPOS

CONTENT = ("NOUN", "PROPN", "VERB", "ADJ", "ADV")
"""Parts of speech of the words of a treebank that are masked."""
LONG = 4
"""The fewest letters of the words of plain sentences that are masked."""
MOST = 200
"""The most sentences with a masked word."""
TOP = 10
SPECTRA = 24
"""The most groups of sentences whose directions are counted: the server sends products of all dimensions."""


@record(eq=False)
class Readings:
    """The predictions of the masked-LM head from the state of a mask at every layer."""

    sentences: list[int]
    """[words], the number of each one's sentence."""
    data: str
    """The words, in words."""
    likeliest: Values
    """[words, states], 1 where the word is the likeliest entry."""
    among: Values
    """[words, states], 1 where it is among the ten likeliest."""
    borrowed: Values
    """[words], 1 where it is among the ten likeliest at the last state of another sentence's mask."""
    divergences: Values
    """[words, states], KL(last || state), nats."""
    entropies: Values
    """[words, states], nats."""


def near_beside_far(asking: Asking) -> Measured:
    """Measures how alike the states of layers next to each other are, beside those of layers at least half of the depth apart:
    linear CKA among the words of 12 sentences, which are one item (Kornblith et al. 2019, sections 3 and 6)."""
    values, apart = _likeness(asking)
    near, far = (values[:, chosen].mean(1) for chosen in (apart == 1, apart >= len(apart) // 2))
    return paired(near, far, bounds=(-2, 2), data=_groups(asking, values), picture=_cells(values))


def falls_with_distance(asking: Asking) -> Measured:
    """Measures the rank correlation of the likeness of two layers with their distance; likeness and items are as in
    `near_beside_far`."""
    values, apart = _likeness(asking)
    pairs = apart > 0
    found = [spearman(apart[pairs].astype(np.float64), one[pairs]) for one in values]
    return paired(found, bounds=(-1, 1), data=_groups(asking, values), picture=_cells(values))


def prediction(asking: Asking, *, of: Literal["last", "early", "divergence"]) -> Measured:
    """Measures the prediction of a masked word, read off its mask at every layer by the model's own head: the logit
    lens (nostalgebraist 2020). Words of several pieces, which no mask predicts, are left out; items are sentences.

    "last": how often the word is among the ten likeliest at the last state, beside those at another sentence's mask. "early":
    how often it is in the lower third of the states, beside the last one. "divergence": KL(last || state), nats, in the middle
    third of the states, beside the lower third.
    """
    read = asking.kept("logit lens", lambda: _read(asking))
    lower, middle, _ = thirds_of(read.among.shape[1])
    own, other = {
        "last": (read.among[:, -1], read.borrowed),
        "early": (read.among[:, lower].mean(1), read.among[:, -1]),
        "divergence": (read.divergences[:, middle].mean(1), read.divergences[:, lower].mean(1)),
    }[of]
    lines, unit = {"among ten": read.among, "likeliest": read.likeliest}, "share of masked words"
    if of == "divergence":
        lines, unit = {"KL(last || layer)": read.divergences, "entropy": read.entropies}, "nats"
    share = read.among.mean(0)
    half = int(np.argmax(share >= share[-1] / 2))
    return paired(
        own,
        other,
        groups=read.sentences,
        bounds=(-np.inf, np.inf) if of == "divergence" else (-1, 1),
        data=read.data,
        picture=curves(ACROSS, [*range(len(share))], unit, {name: line.mean(0).tolist() for name, line in lines.items()}),
        notes=[f"half of what the last layer has among ten is reached in layer {half}"],
    )


def directions(asking: Asking, *, of: Literal["first", "rank"]) -> Measured:
    """Measures along how few directions vectors of 12 sentences lie in the upper third of the layers, beside the lower third.

    "first" is the share of their squared length along the first singular direction (Ethayarajh 2019, section 3.3); "rank" their
    effective rank (Roy and Vetterli 2007), divided by the number of words.
    """
    groups = asking.kept("directions", lambda: _spectra(asking))
    layers, means = groups[:, 0 if of == "first" else 1, 1:], groups.mean(0).tolist()
    lower, _, upper = thirds_of(layers.shape[1])
    lines, unit = {"first direction": means[0]}, "share of squared length"
    if of == "rank":
        lines, unit = {"effective rank / words": means[1], "mean length / √dimensions": means[2]}, "ratio"
    return paired(
        layers[:, upper].mean(1), layers[:, lower].mean(1), bounds=(-1, 1),
        data=f"{len(groups)} groups of {GROUP} {bank_of(asking).source}",
        picture=curves(ACROSS, [*range(len(means[0]))], unit, lines),
    )  # fmt: skip


def masked_word(sentence: Sentence) -> tuple[str, str] | None:
    """Returns a sentence whose middle content word is masked, and the word; None without one."""
    spans = [sentence.spans[sentence.places[number]] for number, row in sentence.rows.items() if row[UPOS] in CONTENT]
    spans = [span for span in spans if WORD.fullmatch(sentence.text[span.start : span.end])]
    if not spans or MASK in sentence.text:
        return None
    start, end, _ = spans[len(spans) // 2]
    return sentence.text[:start] + MASK + sentence.text[end:], sentence.text[start:end]


def _masked(asking: Asking) -> tuple[list[tuple[str, str, int]], str]:
    """Returns texts with a mask, the words there and the numbers of the sentences, and what they are: a content word of each
    sentence of the user's treebank, or each longer word of the plain sentences, as words of generated ones can't be guessed."""
    bank = given_bank(asking)
    if bank is not None:
        given = enumerate(map(masked_word, bank.test))
        return [(*each, number) for number, each in given if each is not None][:MOST], bank.source
    texts = sentences(asking)
    return masked_words(texts, LONG), source(asking, len(texts))


def _read(asking: Asking) -> Readings:
    masked, data = _masked(asking)
    there = log_probabilities(asking, [(text, word) for text, word, _ in masked], single=True)
    asked = [each for each in masked if each[:2] in there]
    if len(asked) < 2:
        raise NotAsked("the vocabulary has hardly any word of the sentences")
    words = [word.casefold() for _, word, _ in asked]
    tops, divergences, entropies = list[list[list[str]]](), [], []
    for answer in asking.client.read_layers_stream(
        [text for text, _, _ in asked], model=asking.model, top_k=TOP, timeout=asking.timeout
    ):
        readings = sorted(answer.positions[0].layers, key=lambda reading: reading.layer)
        tops.append([[entry.token.casefold() for entry in reading.top] for reading in readings])
        divergences.append([reading.divergence for reading in readings])
        entropies.append([reading.entropy for reading in readings])
        asking.show(len(tops), len(asked))
    others = tops[len(tops) // 2 :] + tops[: len(tops) // 2]
    return Readings(
        [number for _, _, number in asked],
        f"{len(asked)} masked words of {data}",
        np.array([[float(top[0] == word) for top in own] for own, word in zip(tops, words, strict=True)]),
        np.array([[float(word in top) for top in own] for own, word in zip(tops, words, strict=True)]),
        np.array([float(word in other[-1]) for other, word in zip(others, words, strict=True)]),
        np.array(divergences),
        np.array(entropies),
    )


def _spectra(asking: Asking) -> Values:
    """Returns [groups, 3, states]: the share of the first direction, the effective rank for each word, and the mean length of
    vectors, divided by the root of their dimensions."""
    texts = [sentence.text for sentence in bank_of(asking).sentences[: GROUP * SPECTRA]]
    rows = []
    for start in range(0, len(texts) - 1, GROUP):
        found = asking.client.describe_geometry(
            texts[start : start + GROUP], model=asking.model, second_moments=True, truncate=True, timeout=asking.timeout
        )
        length = found.norm() / math.sqrt(asking.model.hidden_size)
        rows.append([found.variance_shares(), found.effective_rank() / found.vectors, length])
        asking.show(start + GROUP, len(texts))
    return np.array(rows)


def _likeness(asking: Asking) -> tuple[Values, Values]:
    """Returns CKA, [groups, states, states], and how many layers two states are apart, [states, states]."""
    values = asking.kept("likeness of layers", lambda: np.array(likeness(asking, asking.model)))
    if not len(values):
        raise NotAsked(f"the treebank has fewer than {GROUP} test sentences; give a larger one by --data")
    states = np.arange(values.shape[1])
    if len(states) < 3:
        raise NotAsked("a model of one layer has no layers near and far")
    return values, np.abs(np.subtract.outer(states, states))


def _cells(values: Values) -> Grid:
    return grid(values.mean(0).tolist(), "CKA", across=ACROSS, down="layer")


def _groups(asking: Asking, values: Values) -> str:
    return f"{len(values)} groups of {GROUP} test {bank_of(asking).source}"
