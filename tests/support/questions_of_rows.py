"""Rows of many questions, as the engine runs them: for tests that run each on two devices, or count what it costs on one."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from bertscope_service.analyses.attention import AttentionObserver
from bertscope_service.analyses.observers.attention_statistics import SPECIAL, StatisticsObserver, TokenKinds
from bertscope_service.analyses.observers.attribution import AttributionObserver
from bertscope_service.analyses.observers.columns import ColumnObserver
from bertscope_service.analyses.observers.context_units import ACTIVATIONS, PRODUCTS, WEIGHTS, Directions, UnitKind, UnitSet
from bertscope_service.analyses.observers.contexts import ContextsObserver, Found, Search, TextPlaces
from bertscope_service.analyses.observers.geometry import GeometryObserver, TextVectors
from bertscope_service.analyses.observers.importance import GradientObserver
from bertscope_service.analyses.observers.inspection import InspectionObserver
from bertscope_service.analyses.observers.lens import LensObserver
from bertscope_service.analyses.observers.map_views import MapView
from bertscope_service.analyses.observers.masks import Entries, LogitObserver, MaskObserver
from bertscope_service.analyses.observers.means import ContextObserver
from bertscope_service.analyses.observers.path_gradients import Base, PathObserver
from bertscope_service.analyses.observers.pooling import Pooling, Units
from bertscope_service.analyses.observers.predictions import GoldObserver
from bertscope_service.analyses.observers.prefix import PrefixObserver
from bertscope_service.analyses.observers.quantities import Quantity, refusal
from bertscope_service.analyses.observers.sequences import HiddenObserver, LogitsObserver
from bertscope_service.analyses.observers.site_vectors import SiteSumsObserver, SiteVectorsObserver
from bertscope_service.analyses.observers.span_states import SpanStatesObserver
from bertscope_service.analyses.observers.state_quantities import StateQuantity
from bertscope_service.analyses.observers.targets import EntryTarget
from bertscope_service.analyses.observers.word_maps import Words
from bertscope_service.analyses.observers.word_pairs import PairObserver
from bertscope_service.analyses.observers.word_products import WordProductsObserver
from bertscope_service.analyses.states import StatesObserver
from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.decomposition import Part, decomposition_of
from bertscope_service.encoders.edits import Edits
from bertscope_service.encoders.observer import Observer
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.encoders.sites import Change, Site
from bertscope_service.encoders.state import State
from bertscope_service.encoders.torch.encoder import TorchEncoder
from bertscope_service.engine.batch import LaunchedBatch, launch
from bertscope_service.engine.rows import Row

NONE = np.zeros((1, 0), dtype=np.int64)
ASKED = np.array([[11, 12]])
AMONG = Entries(np.arange(10, 60))

Make = Callable[[Encoder, int], Observer]
"""Makes the observer of a row of so many tokens."""


def _kinds(length: int) -> TokenKinds:
    texts = np.zeros(length, dtype=np.int8)
    texts[[0, -1]] = SPECIAL
    return TokenKinds(texts, np.zeros(length, dtype=bool))


def _words(length: int) -> Words:
    of_piece = np.arange(length) * 3 // 4
    segments = np.zeros(of_piece[-1] + 1, dtype=np.int64)
    segments[[0, -1]] = -1
    return Words(of_piece, segments, ())


def _units(pooling: Pooling = Pooling.MEAN) -> Units:
    return Units.made([[1, 2], [3], [4, 5, 6]], pooling)


def _inspection(encoder: Encoder, length: int) -> Observer:
    heads = ((0, (0, 2)), (1, (1,)))
    views = (
        MapView(heads, range(8), range(8), 1, torch.float16),
        MapView(((1, (0, 1)),), range(4), range(4), 2, torch.uint8, untouched=True),
    )
    return InspectionObserver((3,), 3, ASKED[:, :1], views, None, True, True)


def _search(encoder: Encoder, length: int) -> Observer:
    heads, size = np.arange(encoder.shape.heads), encoder.shape.hidden_size
    along = Directions(np.ones((1, size), dtype=np.float32), np.zeros(1, dtype=np.float32), None, cosine=False)
    sets = [
        UnitSet(UnitKind.HEAD, 1, 1, heads, True, WEIGHTS),
        UnitSet(UnitKind.ACTIVATION, 0, 0, np.arange(4), False, ACTIVATIONS, (Site.ACTIVATIONS, 0)),
        UnitSet(UnitKind.DIRECTION, 1, 0, np.arange(1), True, PRODUCTS, (Site.STATE, 1), directions=along),
    ]
    words = _words(length)
    units = Units.made([np.flatnonzero(words.of_piece == word).tolist() for word in (1, 2, 3)], Pooling.MEAN)
    drawn = {False: np.array([[0, 0]]), True: np.zeros((0, 2), dtype=np.int64)}
    text = TextPlaces(
        0, words.of_piece, words.segments >= 0, np.array([1, 2, 3]), units, np.zeros((0, 2), dtype=np.int64), drawn
    )
    return ContextsObserver(Search(sets, 2, [np.full(len(one), -np.inf, dtype=np.float32) for one in sets]), text)


def _maps(quantity: Quantity, *, words: bool = False) -> Make:
    def make(encoder: Encoder, length: int) -> Observer:
        heads = (0, 2) if quantity.by_head else (0,)
        layers, of_piece = encoder.shape.layers, _words(length).of_piece if words else None
        return AttentionObserver(0, layers, (0, layers - 1), heads, torch.float32, of_piece, True, quantity)

    return make


def _states(encoder: Encoder, units: Units | None) -> Observer:
    size, layers = encoder.shape.hidden_size, (0, encoder.shape.layers)
    return StatesObserver(layers, torch.float32, True, size, units, StateQuantity.HIDDEN)


def _on_a_path(*, from_zeros: bool, frozen: bool = False) -> Make:
    def make(encoder: Encoder, length: int) -> Observer:
        base: Base = np.full(length, True) if from_zeros else TokenSequence([9] * length, [0] * length)
        return PathObserver(EntryTarget(3, (11, 12)), base, 0.5, frozen)

    return make


QUESTIONS: Mapping[str, Make] = {
    "FillMask": lambda encoder, length: MaskObserver((3,), 5, NONE),
    "FillMask candidates": lambda encoder, length: MaskObserver((3, 5), 2, np.array([[11, 12], [13, 14]])),
    "FillMask among": lambda encoder, length: MaskObserver((3,), 2, ASKED, AMONG),
    "FillMask logits": lambda encoder, length: LogitObserver((3,), 3, NONE),
    "ScoreTexts": lambda encoder, length: GoldObserver((3, 4), np.array([[11], [12]]), ranked=True),
    "RankHeads": lambda encoder, length: GradientObserver(GoldObserver((3, 4), np.array([[11], [12]]))),
    "SweepHeads": lambda encoder, length: PrefixObserver(1),
    "SweepSites": lambda encoder, length: SiteVectorsObserver(((Site.STATE, 0), (Site.HEAD_OUTPUT, 1), (Site.ACTIVATIONS, 1))),
    "means of sites": lambda encoder, length: SiteSumsObserver(((Site.STATE, 2), (Site.FEED_FORWARD_OUTPUT, 1))),
    "logits of all tokens": lambda encoder, length: LogitsObserver(),
    "ReadLens": lambda encoder, length: LensObserver((3,), (0, 1, encoder.shape.layers), 3, np.array([[11]]), True),
    "AttributeWords": lambda encoder, length: EntryTarget(3, (11, 12)),
    "AttributeWords gradients": _on_a_path(from_zeros=False),
    "AttributeWords zeros": _on_a_path(from_zeros=True),
    "AttributeWords frozen": _on_a_path(from_zeros=True, frozen=True),
    "AttributeLogits": lambda encoder, length: AttributionObserver(3, (11, 12)),
    "Inspect": _inspection,
    "hidden states": lambda encoder, length: HiddenObserver(),
    "means of contexts": lambda encoder, length: ContextObserver(),
    "ExtractAttention": _maps(Quantity.WEIGHTS),
    "ExtractAttention words": _maps(Quantity.WEIGHTS, words=True),
    "ExtractAttention rollout": _maps(Quantity.ROLLOUT),
    "ExtractAttention layer_output_norms": _maps(Quantity.LAYER_OUTPUT_NORMS),
    "ExtractAttention alti": _maps(Quantity.ALTI),
    "ExtractAttention globenc": _maps(Quantity.GLOBENC),
    "DescribeAttention": lambda encoder, length: StatisticsObserver(tuple(range(encoder.shape.layers)), _kinds(length)),
    "ScoreRelations": lambda encoder, length: PairObserver(_words(length), np.array([[1, 2], [2, 1]]), np.array([-1, 1])),
    "features": lambda encoder, length: ColumnObserver(np.array([1, 2]), 0),
    "DescribeGeometry": lambda encoder, length: GeometryObserver((0, 1), TextVectors(_units(), (0, 1)), "query"),
    "FindContexts": _search,
    "products of words": lambda encoder, length: WordProductsObserver((0, 1), _units()),
    "vectors of spans": lambda encoder, length: SpanStatesObserver((0, encoder.shape.layers), _units(Pooling.MAX)),
    "ExtractHiddenStates": lambda encoder, length: _states(encoder, None),
    "ExtractHiddenStates words": lambda encoder, length: _states(encoder, _units()),
}
"""Observers by the question that they answer, or by what they read for several."""


ROUNDED = {np.dtype(np.float16): (float(np.finfo(np.float16).eps), 0.0), np.dtype(np.uint8): (0.0, 1.0)}
"""The relative and the absolute step of maps that are sent in few bits: the smallest difference may round to neighbours."""


class _NoJob:
    """Stands for the call that rows belong to, which nobody traces."""

    timeline = None


def sequences(encoder: Encoder, rows: int = 8, length: int = 24, *, padded: bool = True) -> list[TokenSequence]:
    """Returns random rows, up to three tokens shorter than the longest one if `padded`."""
    draw = np.random.default_rng(3)
    lengths = [length - (row % 4 if padded else 0) for row in range(rows)]
    return [TokenSequence(draw.integers(10, encoder.shape.vocabulary_size, each).tolist(), [0] * each) for each in lengths]


def gates(encoder: TorchEncoder, kind: str) -> Edits:
    """Returns edits of one kind: gates "zero", "uniform", "scale" or "mean", or "sites", a change at each of them."""
    keep = np.ones((encoder.shape.layers, encoder.shape.heads), dtype=np.float32)
    uniform, constant = np.zeros_like(keep), {}
    if kind == "sites":
        return Edits(keep, uniform, changes=_changes(encoder))
    keep[1, 0] = 0.5 if kind == "scale" else 0
    if kind == "uniform":
        uniform[1, 0] = 1
    if kind == "mean":
        constant[1] = np.full((encoder.shape.heads, encoder.head_size), 0.1, dtype=np.float32)
    return Edits(keep, uniform, constant)


def _changes(encoder: TorchEncoder) -> tuple[Change, ...]:
    places, heads = np.array([1, 3]), np.array([0, 2])
    add = np.linspace(-1, 1, encoder.shape.hidden_size, dtype=np.float32)
    return (
        Change(Site.STATE, 0, places, add=add),
        Change(Site.HEAD_OUTPUT, 0, places, heads, 0.5),
        Change(Site.ATTENTION_OUTPUT, 1, places, keep=0.5),
        Change(Site.ACTIVATIONS, 1, places, np.array([3, 4, 5]), 2.0),
        Change(Site.FEED_FORWARD_OUTPUT, 1, places, keep=0.25),
        Change(Site.ATTENTION, 1, places, heads, keys=np.array([0, 2])),
        Change(Site.STATE, 2, places, left=add[:, None] / 4, right=add[None] / 4),
        Change(Site.STATE, encoder.shape.layers, places, keep=0.5),
    )


def offered(encoder: Encoder) -> list[str]:
    """Returns the questions that a model answers."""
    missing = {f"ExtractAttention {each.value}" for each in Quantity if refusal(each, encoder)}
    decomposition = decomposition_of(encoder)
    assert decomposition is not None
    parts = {"ReadLens": Part.LAST, "AttributeLogits": Part.STREAM}
    missing |= {question for question, part in parts.items() if decomposition.refusal(part)}
    return [question for question in QUESTIONS if question not in missing]


def answers(
    encoder: Encoder, question: str, rows: Sequence[TokenSequence], edits: Callable[[int], Edits | None] = lambda row: None
) -> Sequence[Any]:
    """Returns the results of one batch, as the engine runs it: launched, waited for, dealt out."""
    return launched(encoder, question, rows, edits).results()


def launched(
    encoder: Encoder, question: str, rows: Sequence[TokenSequence], edits: Callable[[int], Edits | None] = lambda row: None
) -> LaunchedBatch:
    """Launches one batch, whose results may still be on their way to the host."""
    made = [
        Row(encoder, sequence, QUESTIONS[question](encoder, len(sequence)), edits(index)) for index, sequence in enumerate(rows)
    ]
    for row in made:
        row.job = _NoJob()  # type: ignore[assignment]
        row.index, row.length = 0, len(row.sequence)
    with torch.inference_mode():
        return launch(made, encoder.device, 0.0)


def numbers(result: Any) -> list[np.ndarray[Any, Any]]:
    """Returns all numbers of a result, whatever its form, but for its seconds; as float64 but for ROUNDED ones."""
    if isinstance(result, torch.Tensor):
        return [result.detach().cpu().double().numpy().ravel()]
    if isinstance(result, np.ndarray):
        return [result.astype(result.dtype if result.dtype in ROUNDED else np.float64).ravel()]
    if isinstance(result, (list, tuple)):
        return [part for one in result for part in numbers(one)]
    if isinstance(result, (int, float, np.generic)):
        return [np.array([float(result)])]
    if isinstance(result, State):
        return numbers(result.hidden)
    if result is None or isinstance(result, str):
        return []
    if isinstance(result, Found):
        result = replace(result, counted=_counts(result.counted))
    names = [name for kind in type(result).__mro__ for name in getattr(kind, "__slots__", ())] or list(vars(result))
    return [part for name in names if name != "seconds" for part in numbers(getattr(result, name))]


def _counts(counted: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Returns the bins that have values, and their counts, [2, n]: a CPU gives the bin of each value, a GPU the counts."""
    most = 256
    if counted.dtype == np.uint8:
        return np.stack(np.unique(counted + most * np.arange(counted.shape[1]), return_counts=True))
    units, bins = np.nonzero(counted)
    return np.stack([most * units + bins, counted[units, bins]])


def assert_same(found: object, expected: object, share: float = 1e-4) -> None:
    """Compares all numbers of two results, to a share of the largest of each."""
    ours, theirs = numbers(found), numbers(expected)
    assert theirs and [len(part) for part in ours] == [len(part) for part in theirs]
    for one, other in zip(ours, theirs, strict=True):
        relative, absolute = ROUNDED.get(other.dtype, (0.0, 0.0))
        one, other = one.astype(np.float64), other.astype(np.float64)
        # Gradients are sums of products of both signs: their error goes with the largest, not with what is left.
        bound = max(absolute, share * max(1.0, float(np.abs(other).max(initial=0))))
        np.testing.assert_allclose(one, other, rtol=relative, atol=bound)
