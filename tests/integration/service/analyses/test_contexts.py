"""Places at which units are largest, against transformers' own modules with hooks, in float64, and a full sort."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from bertscope_service.analyses.context_places import ContextText, Corpus, PlaceQuery
from bertscope_service.analyses.contexts import ContextsPlan, SetSums
from bertscope_service.analyses.observers.context_units import (
    ACTIVATIONS,
    COSINES,
    PRODUCTS,
    WEIGHTS,
    Directions,
    UnitKind,
    UnitSet,
)
from bertscope_service.analyses.observers.contexts import PLACE_BITS
from bertscope_service.analyses.relations import LinkedText
from bertscope_service.analyses.words import Span
from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.edits import Edits
from bertscope_service.encoders.sites import Change, Site
from numpy.typing import NDArray

from tests.support.contexts import Expected, Read, along_pairs, at_words, key_of, most, read
from tests.support.exports import load_exported
from tests.support.hooked import NUMBERS, Hooked
from tests.support.reference import HeadEdits, Reference, Subject
from tests.support.relations import LINKED, Linked
from tests.support.rounding import BOTH_SIDES
from tests.support.tiny import SENTENCES

TEXTS = [
    *LINKED,
    *(Linked((text,), [], []) for text in ("cat", "?", "unbeatable", "The cat sat.", "The cat sat.", SENTENCES[8])),
    Linked(("cat", "Unplayable songs!"), [], []),
    *LINKED[3:6],  # again, so that values are equal
]
IDS = [3 + (7 * index) % len(TEXTS) for index in range(len(TEXTS))]
"""Their numbers in the corpus: not in the order in which they are sent, and from 3 on."""
BEST, SAMPLE, SEED = 6, 25, 2**63 + 11
EDITS: HeadEdits = {(0, 1): (0.0, 0.0), (1, 2): (0.0, 1.0), (1, 0): (-2.0, 0.0)}
Batches = Callable[[int], Iterator[Sequence[int]]]


def corpus_of(subject: Subject, *, pieces: bool = False, pairs: bool = True, words: Sequence[str] = ()) -> Corpus:
    texts = []
    for number, text in zip(IDS, TEXTS, strict=True):
        spans = () if pieces else tuple(Span(*word) for word in text.words)
        links = np.array([] if pieces else text.pairs, dtype=np.int64).reshape(-1, 3)
        texts.append(
            ContextText(number, LinkedText((text.texts[0], text.texts[1] if len(text.texts) > 1 else None), spans, links))
        )
    return Corpus(PlaceQuery(texts, pieces, frozenset(words), pairs, SAMPLE, SEED, False), subject.tokenizer)


def one_by_one(count: int) -> Iterator[Sequence[int]]:
    return iter([[row] for row in range(count)])


def mixed(size: int) -> Batches:
    """Batches of rows of mixed length, in an order of their own."""

    def batches(count: int) -> Iterator[Sequence[int]]:
        order = np.random.default_rng(size).permutation(count).tolist()
        return (order[begin : begin + size] for begin in range(0, count, size))

    return batches


@torch.inference_mode()
def search(plan: ContextsPlan, encoder: Encoder, batches: Batches, edits: Edits | None = None) -> list[SetSums]:
    for rows in batches(len(plan.rows)):
        state = encoder.begin([plan.rows[row][0] for row in rows])
        observers: list[Any] = [plan.rows[row][1] for row in rows]
        placed = encoder.place_edits([edits and edits.at(plan.rows[row][0]) for row in rows])
        readout = type(observers[0]).run(encoder, state, placed, observers)
        found, *others = readout.deal(tuple(tensor.numpy() for tensor in readout.tensors))
        assert others == [None] * (len(rows) - 1)
        plan.add(found)
    plan.end()
    return plan.sums


def head_sets(subject: Subject, *, pairs: bool = False) -> list[UnitSet]:
    shape = subject.encoder.shape
    every = np.arange(shape.heads)
    found = [UnitSet(UnitKind.HEAD, layer, layer, every, True, WEIGHTS, pairs=pairs) for layer in range(shape.layers)]
    return [replace(found[0], units=np.array([1, 3]), every=False), *found[1:]]


def neuron_sets(subject: Subject) -> list[UnitSet]:
    size = subject.encoder.site_size(Site.ACTIVATIONS)
    assert size is not None
    some = UnitSet(UnitKind.ACTIVATION, 0, 0, np.array([2, 5, size - 1]), False, ACTIVATIONS, (Site.ACTIVATIONS, 0))
    last = subject.encoder.shape.layers - 1
    return [some, UnitSet(UnitKind.ACTIVATION, last, last, np.arange(size), True, ACTIVATIONS, (Site.ACTIVATIONS, last))]


def directions(site: Site, layer: int, size: int, **fields: Any) -> UnitSet:
    draw = np.random.default_rng(layer)
    vectors = draw.normal(size=(3, size)).astype(np.float32)
    biases = np.float32([0, 0.5, -1])
    found = replace(Directions(vectors, biases, None, cosine=False), **fields)
    bins = COSINES if found.cosine else PRODUCTS
    return UnitSet(UnitKind.DIRECTION, layer, 0, np.arange(3), True, bins, (site, layer), directions=found)


def value_of(chosen: UnitSet) -> Callable[[NDArray[np.float64]], Any]:
    """The value at the vector of a word, by the definition."""
    if chosen.directions is None:
        return lambda vector: vector[chosen.units]
    of, vectors = chosen.directions, chosen.directions.vectors.astype(np.float64)
    if of.cosine:
        return lambda vector: vectors @ vector / np.linalg.norm(vectors, axis=1) / np.linalg.norm(vector)

    def product(vector: NDArray[np.float64]) -> NDArray[np.float64]:
        found = vectors @ vector + of.biases
        return found if of.thresholds is None else np.where(found > of.thresholds, found, 0.0)

    return product


def expected(chosen: UnitSet, texts: dict[int, Read]) -> Expected:
    if chosen.place is not None:
        return at_words(texts, *chosen.place, value_of(chosen))
    found = (along_pairs if chosen.pairs else most)(texts, chosen.layer)
    found.values = [values[chosen.units] for values in found.values]
    found.partners = [partners[chosen.units] for partners in found.partners]
    return found


def places_of(packed: NDArray[np.int64]) -> list[tuple[int, int]]:
    return [(place >> PLACE_BITS, place & ((1 << PLACE_BITS) - 1)) for place in packed.ravel().tolist()]


def check(found: SetSums, wanted: Expected) -> None:
    """Values are those of the definition, and no place that is left out has a larger one; equal values are in order."""
    values = np.array(wanted.values)
    scale = float(np.abs(values).max())
    close = BOTH_SIDES * max(scale, 1e-3)
    count = len(values)
    assert found.sample.count == count
    index = {place: number for number, place in enumerate(wanted.places)}
    np.testing.assert_allclose(found.sums / count, values.mean(axis=0), rtol=0, atol=close)
    np.testing.assert_allclose(found.squares / count, (values**2).mean(axis=0), rtol=0, atol=2 * close * scale)
    assert (found.histogram.sum(axis=1) == count).all()
    below = np.cumsum(found.histogram, axis=1)[:, :-1]
    for edge, counted in zip(found.set.bins.edges, below.T, strict=True):
        assert (counted >= (values < edge - close).sum(axis=0)).all()
        assert (counted <= (values < edge + close).sum(axis=0)).all()
    for unit in range(len(found.set)):
        places = places_of(found.places[unit])
        partners = [word for _, word in places_of(found.partners[unit])] if len(found.partners[unit]) else None
        named = [(text, word, partners[at] if found.set.pairs and partners else word) for at, (text, word) in enumerate(places)]
        own = [index[place] for place in named]
        assert len({*own}) == len(own) == min(BEST, count)
        np.testing.assert_allclose(found.values[unit], values[own, unit], rtol=0, atol=close)
        np.testing.assert_allclose(found.values[unit], -np.sort(-values[:, unit])[: len(own)], rtol=0, atol=close)
        ours = [(-value, *place) for value, place in zip(found.values[unit].tolist(), named, strict=True)]
        assert ours == sorted(ours)
        order = sorted(range(count), key=lambda number: (-values[number, unit], wanted.places[number]))
        ranked = values[order, unit]
        for rank, number in enumerate(order[: len(own)]):
            beside = [abs(ranked[rank] - ranked[other]) for other in (rank - 1, rank + 1) if 0 <= other < count]
            if min(beside) > 2 * close:
                assert own[rank] == number
    drawn = sorted(wanted.places, key=lambda place: key_of(SEED, place, sorted(IDS)))[:SAMPLE]
    assert places_of(found.sample.places) == [(text, first) for text, first, _ in drawn]
    assert places_of(found.sample.partners) == [(text, second) for text, _, second in drawn]
    assert found.sample.keys.tolist() == [key_of(SEED, place, sorted(IDS)) for place in drawn]
    own = [index[place] for place in drawn]
    np.testing.assert_allclose(found.drawn.T, values[own], rtol=0, atol=close)
    if found.set.kind is UnitKind.HEAD and not found.set.pairs:
        check_partners(found, values, wanted, index, drawn)


def check_partners(found: SetSums, values: Any, wanted: Expected, index: dict[Any, int], drawn: list[Any]) -> None:
    """Partners are those of the definition, but where another word has as large a weight."""
    same = 0
    for unit in range(len(found.set)):
        named = [(text, word, word) for text, word in places_of(found.places[unit])] + drawn
        partners = places_of(found.partners[unit]) + places_of(found.drawn_partners[unit])
        for place, (text, partner) in zip(named, partners, strict=True):
            assert text == place[0]
            same += partner == wanted.partners[index[place]][unit]
    assert same >= 0.98 * len(found.set) * (found.best + len(drawn))


@pytest.fixture(scope="module")
def hooked(subject: Subject) -> Hooked:
    return Hooked(Reference(subject.folder, torch.float64))


def texts_read(hooked: Hooked, **fields: Any) -> dict[int, Read]:
    """What transformers gives for each text, by its rank in the corpus."""
    ranked = sorted(IDS)
    return {ranked.index(number): read(hooked, text, **fields) for number, text in zip(IDS, TEXTS, strict=True)}


@pytest.fixture(scope="module")
def texts(hooked: Hooked) -> dict[int, Read]:
    return texts_read(hooked)


def all_sets(subject: Subject) -> list[UnitSet]:
    shape = subject.encoder.shape
    found = [*head_sets(subject), *head_sets(subject, pairs=True), *neuron_sets(subject)]
    for layer, site in enumerate([Site.ATTENTION_OUTPUT, Site.FEED_FORWARD_OUTPUT, Site.HEAD_OUTPUT]):
        size = subject.encoder.head_size * shape.heads if site is Site.HEAD_OUTPUT else subject.encoder.site_size(site)
        assert size is not None
        found.append(directions(site, layer % shape.layers, size))
    for layer in (0, 1, shape.layers):
        found += [directions(Site.STATE, layer, shape.hidden_size, cosine=cosine) for cosine in (False, True)]
    return found


@pytest.mark.slow
def test_places_are_those_of_a_full_sort(subject: Subject, texts: dict[int, Read]) -> None:
    sets = all_sets(subject)
    plan = ContextsPlan(sets, corpus_of(subject), BEST)
    for found in search(plan, subject.encoder, mixed(3)):
        check(found, expected(found.set, texts))
    # Words are where the tokenizer of transformers has them.
    for rank, text in texts.items():
        assert len(plan.corpus.spans[rank]) == len(text.words)


@pytest.mark.parametrize("subject", ["bert"], indirect=True)
def test_values_up_to_a_threshold_are_zeros_in_order(subject: Subject, texts: dict[int, Read]) -> None:
    """Fewer values are over it than places are asked for: the rest are the first words of the corpus."""
    size, close = subject.encoder.shape.hidden_size, 1e-3
    plain = directions(Site.STATE, 2, size)
    values = np.sort(np.array(expected(plain, texts).values), axis=0)
    assert plain.directions is not None
    middles = (values[1:] + values[:-1]) / 2
    gaps = values[1:] - values[:-1]
    first = len(gaps) - BEST + 2
    chosen = first + gaps[first:].argmax(axis=0)
    limits = middles[chosen, range(3)].astype(np.float32)
    assert (gaps[chosen, range(3)] > 2 * close).all()
    assert (limits > 0).all()
    bounded = replace(plain, directions=replace(plain.directions, thresholds=limits))
    (found,) = search(ContextsPlan([bounded], corpus_of(subject), BEST), subject.encoder, mixed(3))
    wanted = expected(bounded, texts)
    check(found, wanted)
    for unit in range(3):
        zeros = [place[:2] for place, value in zip(wanted.places, wanted.values, strict=True) if value[unit] == 0]
        over = int((found.values[unit] > 0).sum())
        assert 0 < over < BEST
        assert places_of(found.places[unit, over:]) == zeros[: BEST - over]


@pytest.mark.slow
@pytest.mark.parametrize("subject", ["bert"], indirect=True)
def test_pieces_are_places(subject: Subject, hooked: Hooked) -> None:
    sets = [head_sets(subject)[1], neuron_sets(subject)[0], directions(Site.STATE, 1, subject.encoder.shape.hidden_size)]
    plan = ContextsPlan(sets, corpus_of(subject, pieces=True, pairs=False), BEST)
    texts = texts_read(hooked, pieces=True)
    for found in search(plan, subject.encoder, mixed(4)):
        check(found, expected(found.set, texts))


@pytest.mark.slow
@pytest.mark.parametrize("subject", ["bert"], indirect=True)
def test_places_under_interventions(subject: Subject, hooked: Hooked, texts: dict[int, Read]) -> None:
    """Of heads, and of the state of a layer."""
    changed = Change(Site.STATE, 1, keep=0.25, add=np.linspace(-1, 1, subject.encoder.shape.hidden_size, dtype=np.float32))
    edits = replace(subject.gates(EDITS), changes=(changed,))
    add = torch.from_numpy(changed.add).double()
    after = texts_read(hooked, edits=EDITS, changes={(NUMBERS[Site.STATE], 1): lambda x: 0.25 * x + add})
    size = subject.encoder.shape.hidden_size
    sets = [*head_sets(subject)[1:], neuron_sets(subject)[1], *(directions(Site.STATE, layer, size) for layer in (1, 2))]
    for found in search(ContextsPlan(sets, corpus_of(subject), BEST), subject.encoder, mixed(5), edits):
        check(found, expected(found.set, after))
        assert np.abs(found.sums - np.sum(expected(found.set, texts).values, axis=0)).max() > 0.1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bert", "modernbert"])
def test_onnx_runtime_gives_the_same(name: str, checkpoint: Callable[[str], Path], export_cache: Path) -> None:
    subject = Subject(name, checkpoint(name))
    texts = texts_read(Hooked(Reference(subject.folder, torch.float64)))
    onnx = load_exported(subject.folder, export_cache)
    shown = [one for one in all_sets(subject) if one.place is None or onnx.site_refusal(*one.place) is None]
    assert {one.place[0] for one in shown if one.place} >= {Site.STATE, Site.ACTIVATIONS}
    for batches in (one_by_one, mixed(6)):
        for found in search(ContextsPlan(shown, corpus_of(subject), BEST), onnx, batches):
            check(found, expected(found.set, texts))


@pytest.mark.parametrize("subject", ["bert"], indirect=True)
def test_only_some_words_are_places(subject: Subject, texts: dict[int, Read]) -> None:
    corpus = corpus_of(subject, words=["the", "waited"])
    plan = ContextsPlan(head_sets(subject), corpus, BEST)
    ranked = dict(zip(sorted(IDS), range(len(IDS)), strict=True))
    by_rank = {ranked[number]: text for number, text in zip(IDS, TEXTS, strict=True)}
    written = set()
    for text, word in places_of(search(plan, subject.encoder, mixed(3))[1].places):
        start, end, segment = corpus.spans[text][word].tolist()
        written.add(by_rank[text].texts[segment][start:end].casefold())
    assert written <= {"the", "waited"}
    everywhere = corpus_of(subject)
    assert corpus.words.count == sum(
        by_rank[rank].texts[segment][start:end].casefold() in ("the", "waited")
        for rank, text in texts.items()
        for start, end, segment in everywhere.spans[rank][text.readable].tolist()
    )
    assert len(corpus.rows) < len(everywhere.rows)
