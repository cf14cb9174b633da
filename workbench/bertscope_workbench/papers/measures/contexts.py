"""Measures what context does to the vectors of words: how specific they become, how alike all are, senses, and segments."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

import numpy as np
from bertscope import GeometryDescription, Model, Span, StatesInput

from bertscope_workbench.papers.asking import Asking
from bertscope_workbench.papers.estimates import Measured, NotAsked, bootstrapped, halves, paired
from bertscope_workbench.papers.items.senses import SenseUse, sense_uses
from bertscope_workbench.papers.items.treebank import bank_of
from bertscope_workbench.papers.measures import Between
from bertscope_workbench.papers.measures.probing import thirds_of
from bertscope_workbench.papers.measures.sentences import Values, chosen_names, crossed
from bertscope_workbench.papers.pictures_data import ACROSS, curves
from bertscope_workbench.readers.conllu import Sentence
from bertscope_workbench.readers.treebanks import UPOS

GROUP, GROUPS = 12, 40
"""Sentences of a group, and the most groups: cosines of words of different sentences are taken within each."""
WORDS, OCCURRENCES = 60, 8
"""The most words whose contexts are compared, and the fewest occurrences of each."""
PAIRS = 60
"""Sentences that are read in either segment."""
TAKEN = ("NOUN", "VERB", "ADJ")


def context_specific(asking: Asking) -> Measured:
    """Measures how alike a word's vectors in different sentences are in the upper third of the layers, beside the lower third.

    Of each word the mean cosine, where 0 is that of all words and 1 that of the same vectors: (self-similarity - anisotropy) /
    (1 - anisotropy), after Ethayarajh 2019, sections 3.3 and 4.2, who subtracts alone. A difference alone shrinks where all
    vectors grow alike. The embeddings are left out. Items are words.
    """
    merged = GeometryDescription.merge(_geometry(asking))
    rows = [
        merged.self_similarity(word, adjusted=True)
        for word, sums in merged.words.items()
        if sums.vectors >= OCCURRENCES
    ]  # fmt: skip
    if not rows:
        raise NotAsked(f"no word stands in {OCCURRENCES} sentences")
    anisotropy = merged.anisotropy()
    by_word = np.array(rows) / (1 - anisotropy)
    lines = {"self-similarity from anisotropy to 1": by_word.mean(0).tolist(), "anisotropy": anisotropy.tolist()}
    data = f"{len(rows)} words of at least {OCCURRENCES} occurrences in {merged.texts:,} {bank_of(asking).source}"
    return _upper_beside_lower(by_word, lines, "cosine", data)


def anisotropy_rises(asking: Asking) -> Measured:
    """Measures the mean cosine of words of different sentences in the upper third of the layers, beside the lower third
    (Ethayarajh 2019, section 4.1). Items are groups of 12 sentences."""
    groups = _geometry(asking)
    by_group = np.array([each.anisotropy() for each in groups])
    lines = {"anisotropy": by_group.mean(0).tolist()}
    return _upper_beside_lower(by_group, lines, "cosine", f"{len(groups)} groups of {GROUP} {bank_of(asking).source}")


def words_of_a_sentence(asking: Asking, *, beside: Literal["other sentences", "lower"]) -> Measured:
    """Measures how alike words of one sentence are in the upper third of the layers: their mean cosine, beside that of words of
    different sentences, or beside the lower third (Ethayarajh 2019, section 4.2). Items are groups of 12 sentences.

    Beside the lower third, 0 is the mean cosine of words of different sentences and 1 that of the same vectors, as a difference
    shrinks where all vectors grow alike.
    """
    groups = _geometry(asking)
    within, between = np.array([one.similarity_in_texts() for one in groups]), np.array([one.anisotropy() for one in groups])
    lines = {"words of one sentence": within.mean(0).tolist(), "words of two sentences": between.mean(0).tolist()}
    data = f"{len(groups)} groups of {GROUP} {bank_of(asking).source}"
    if beside == "lower":
        return _upper_beside_lower((within - between) / (1 - between), lines, "cosine", data)
    *_, upper = _layer_thirds(within.shape[1])
    picture = curves(ACROSS, list(groups[0].layers), "cosine", lines)
    return paired(within[:, upper].mean(1), between[:, upper].mean(1), bounds=(-2, 2), data=data, picture=picture)


def rogue_dimensions(asking: Asking, *, dimensions: Annotated[int, Between(1)]) -> Measured:
    """Measures the share that so many dimensions have in the mean cosine of words of different sentences, in the layer where it
    is highest, beside the largest of as many random numbers' squares (Timkey and van Schijndel 2021, section 3).

    Layer and dimensions are chosen on half of the groups of 12 sentences and scored on the other half, both ways.
    """
    groups = _geometry(asking)
    parts = np.array([each.dimension_shares() * each.anisotropy()[:, None] for each in groups])
    of_chosen, whole, layers = np.zeros(len(parts)), np.zeros(len(parts)), []
    for choosing, scored in (halves(len(parts)), halves(len(parts))[::-1]):
        means = parts[choosing].mean(0)
        layers.append(int(means.sum(1).argmax()))
        own = parts[scored, layers[-1]]
        of_chosen[scored] = own[:, means[layers[-1]].argsort()[-dimensions:]].sum(1)
        whole[scored] = own.sum(1)
    squares = np.sort(np.random.default_rng(0).normal(size=(1_000, parts.shape[2])) ** 2)
    chance = float((squares[:, -dimensions:].sum(1) / squares.sum(1)).mean())
    shares = np.sort(GeometryDescription.merge(groups).dimension_shares())[:, ::-1]
    lines = {f"largest {dimensions}": shares[:, :dimensions].sum(1).tolist(), "largest": shares[:, 0].tolist()}
    return bootstrapped(
        lambda items: float(of_chosen[items].sum() / whole[items].sum()) - chance,
        len(parts), value=float(of_chosen.sum() / whole.sum()), control=chance,
        data=f"{len(groups)} groups of {GROUP} {bank_of(asking).source}",
        picture=curves(ACROSS, list(groups[0].layers), "share of the mean cosine", lines),
        notes=["layers of the two halves: " + " and ".join(map(str, layers))],
    )  # fmt: skip


def _geometry(asking: Asking) -> list[GeometryDescription]:
    """Returns the geometry of groups of sentences, with the sums of frequent words."""

    def make() -> list[GeometryDescription]:
        sentences = bank_of(asking).sentences[: GROUP * GROUPS]
        counts = Counter(word for sentence in sentences for word in set(_forms(sentence)))
        words = [word for word, count in counts.most_common(WORDS) if count >= OCCURRENCES]
        groups = [sentences[start : start + GROUP] for start in range(0, len(sentences) - 1, GROUP)]
        found = []
        for number, group in enumerate(groups):
            texts = [sentence.text for sentence in group]
            found.append(
                asking.client.describe_geometry(
                    texts, model=asking.model, words=words, truncate=True, timeout=asking.timeout, on_rejected=asking.rejected
                )
            )
            asking.show(number + 1, len(groups))
        return found

    return asking.kept("geometry of words", make)


def _forms(sentence: Sentence) -> list[str]:
    return [row[1].lower() for row in sentence.rows.values() if row[UPOS] in TAKEN]


def _upper_beside_lower(
    values: Values,
    lines: Mapping[str, Sequence[float]],
    unit: str,
    data: str,
    bounds: tuple[float, float] = (-2, 2),
) -> Measured:
    """Returns numbers of items, [items, states], in the upper third of the layers beside the lower third."""
    lower, _, upper = _layer_thirds(values.shape[1])
    picture = curves(ACROSS, range(values.shape[1]), unit, lines)
    return paired(values[:, upper].mean(1), values[:, lower].mean(1), bounds=bounds, data=data, picture=picture)


def _layer_thirds(states: int) -> list[list[int]]:
    """Returns the outputs of the layers by thirds, without the embeddings."""
    return [[place + 1 for place in third] for third in thirds_of(states - 1)]


def senses_cluster(asking: Asking, *, above: Literal["chance", "embeddings"] = "chance") -> Measured:
    """Measures how often the nearest other use of a word has the same sense, beside a sense drawn from the other uses, or
    beside the embeddings (Wiedemann et al. 2019, section 3).

    The layer is chosen on half of the words and scored on the other half, and the other way round. Items are words.
    """
    uses, right = asking.kept("nearest senses", lambda: _nearest(asking))
    words = [use.word for use in uses]
    names = list(dict.fromkeys(words))
    by_word = np.array([right[:, [word == name for word in words]].mean(1) for name in names])
    scores, chosen = crossed(by_word)
    of_chance = np.array([_same_sense(uses, name) for name in names])
    lines = {"nearest use": right.mean(1).tolist(), "chance": [float(of_chance.mean())] * len(right)}
    return paired(
        scores, of_chance if above == "chance" else by_word[:, 0], bounds=(-1, 1),
        data=f"{len(uses)} sentences of our own, {len(names)} words in two senses (licence of the project)",
        picture=curves(ACROSS, list(range(len(right))), "share of uses with the right sense", lines),
        notes=[chosen_names([f"layer {layer}" for layer in chosen])],
    )  # fmt: skip


def _nearest(asking: Asking) -> tuple[list[SenseUse], Values]:
    """Returns the uses, and [states, uses] 1 where the nearest other use of the word has the same sense."""
    uses = sense_uses()
    states = _span_states(asking, [StatesInput(use.text, [(use.start, use.end)]) for use in uses])
    cosines = np.einsum("uld,vld->luv", states, states)
    for one, use in enumerate(uses):
        for other, another in enumerate(uses):
            if one == other or use.word != another.word:
                cosines[:, one, other] = -np.inf
    nearest = cosines.argmax(2)
    senses = np.array([use.sense for use in uses])
    return uses, (senses[nearest] == senses).astype(np.float64)


def _same_sense(uses: Sequence[SenseUse], word: str) -> float:
    """Returns how often another use of a word, drawn at random, has the same sense."""
    counts = Counter(use.sense for use in uses if use.word == word)
    total = counts.total()
    return sum(count * (count - 1) for count in counts.values()) / (total * (total - 1))


def segments_differ(asking: Asking) -> Measured:
    """Measures how alike a word's vectors are in one segment beside two partners, less in the two segments beside one partner.

    The cosine is of last states (after Mickus et al. 2019, section 5, who compare sentences of all places). A word is the first
    noun of a sentence, or its first word without one. Items are sentences.
    """
    sentences = bank_of(asking).test[: 3 * PAIRS]
    asked = []
    for own, first, second in zip(sentences[::3], sentences[1::3], sentences[2::3], strict=False):
        start, end, _ = _word(own)
        for partner in (first.text, second.text):
            asked += [StatesInput((own.text, partner), [(start, end, 0)]), StatesInput((partner, own.text), [(start, end, 1)])]
    states = _span_states(asking, asked)
    states = states.reshape(-1, 4, *states.shape[1:])  # [sentences, places, layers, dimensions]
    cosine = np.einsum("sild,sjld->lsij", states, states)
    same = (cosine[..., 0, 2] + cosine[..., 1, 3]) / 2
    other = (cosine[..., 0, 1] + cosine[..., 2, 3]) / 2
    lines = {"same segment, other partner": same.mean(1).tolist(), "other segment, same partner": other.mean(1).tolist()}
    return paired(
        same[-1], other[-1], bounds=(-2, 2),
        data=f"words of {same.shape[1]} pairs of {bank_of(asking).source}",
        picture=curves(ACROSS, list(range(len(same))), "cosine", lines),
    )  # fmt: skip


def changed_by_tuning(asking: Asking) -> Measured:
    """Measures how alike states are to those of the fine-tuned copy in the upper third of the layers, beside the lower third.

    The likeness is CKA of the words of 12 sentences, 0 to 1 (Kornblith et al. 2019); items are such groups. Raises NotAsked
    without a fine-tuned copy.
    """
    if asking.fine_tuned is None:
        raise NotAsked("needs a fine-tuned copy of the model; give it with --fine-tuned")
    if asking.fine_tuned.layers != asking.model.layers:
        raise NotAsked("the fine-tuned copy has another number of layers")
    by_group = np.array([np.diagonal(values) for values in likeness(asking, asking.fine_tuned)])
    lines = {"with the fine-tuned copy": by_group.mean(0).tolist()}
    data = f"{len(by_group)} groups of {GROUP} test {bank_of(asking).source}"
    return _upper_beside_lower(by_group, lines, "CKA", data, bounds=(-1, 1))


def likeness(asking: Asking, other: Model) -> list[Values]:
    """Returns CKA of each layer of the model with each of another one, for each 12 test sentences: [states, other states]."""
    texts = [sentence.text for sentence in bank_of(asking).test]
    groups = [texts[start : start + GROUP] for start in range(0, len(texts) - GROUP + 1, GROUP)]
    found = []
    for number, group in enumerate(groups):
        compared = asking.client.compare_representations(
            group, other, model=asking.model, truncate=True, timeout=asking.timeout
        )
        found.append(compared.cka())
        asking.show(number + 1, len(groups))
    return found


def _word(sentence: Sentence) -> Span:
    nouns = [number for number, row in sentence.rows.items() if row[UPOS] == "NOUN"]
    return sentence.spans[sentence.places[nouns[0] if nouns else 1]]


def _span_states(asking: Asking, asked: Sequence[StatesInput]) -> Values:
    """Returns [texts, layers, dimensions], the states of the marked words, each of length 1."""
    found = []
    streamed = asking.client.extract_hidden_states(asked, model=asking.model, unit="span", timeout=asking.timeout)
    for number, states in enumerate(streamed):
        found.append(states.states[:, 0])
        asking.show(number + 1, len(asked))
    vectors = np.array(found, np.float64)
    return np.asarray(vectors / np.linalg.norm(vectors, axis=-1, keepdims=True))
