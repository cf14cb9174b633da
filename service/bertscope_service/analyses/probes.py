"""Plans of probes: which pieces of which texts make up the labelled spans, and the labels of tasks and control tasks."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from bertscope_service.analyses.observers.pooling import Pooling, Units
from bertscope_service.analyses.observers.span_states import SpanStatesObserver
from bertscope_service.analyses.texts import read_named_inputs
from bertscope_service.analyses.words import Span
from bertscope_service.checkpoints.tokenized_text import Piece, TokenizedText
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.errors import InvalidArgument
from bertscope_service.groups import within

DEV_SHARE = 0.1
"""The share of the training texts that decide when training ends, if no others are given."""
SPANS_OF_A_PIECE = 4
"""Spans of a text that a piece may be in, on average: those of a tree's arcs are fewer."""
ROW_PIECES = 1024
"""Pieces of spans that a row reads: a text with more, and with more than SPANS_OF_A_PIECE for each of its own, runs several
times. Its states would take a device, and memory, for seconds."""
ALIKE = 1e-12
"""Numbers to train on whose standard deviation is a smaller share of the largest number are one number, but for rounding."""
MAX_OVERLAP = 250_000
"""Maximum number of pieces in the spans of a call beyond those; one that is in several spans counts in each."""


@dataclass(frozen=True, slots=True, eq=False)
class LabelledText:
    """A text of a part: its field, its text or pair, its spans, and their labels, [spans]: classes, int64, or numbers, float64.
    others: the second span of each pair, or none."""

    field: str
    input: tuple[str, str | None]
    spans: Sequence[Span]
    labels: NDArray[Any]
    others: Sequence[Span] = ()


@dataclass(frozen=True, slots=True)
class ProbeQuery:
    """The texts of a TrainProbe request, and how their spans become vectors. `layers` ascend."""

    train: Sequence[LabelledText]
    dev: Sequence[LabelledText]
    test: Sequence[LabelledText]
    layers: tuple[int, ...]
    pooling: Pooling
    truncate: bool
    seed: int
    dev_share: float = DEV_SHARE
    """The share of the training texts that is split off for dev without such texts; 0 for none."""
    test_share: float = 0.0
    """The same for test, before that."""

    @property
    def pairs(self) -> bool:
        """True if labels are of pairs of spans."""
        return any(text.others for text in self.train)


@dataclass(slots=True, eq=False)
class ProbePart:
    """Spans of one part of the texts, those without a piece left out.

    rows: each text with a span, with what reads its spans' states, or some of them: of pairs all first ones, then all second
    ones. labels: class of each span or pair, int64, or its number, float64. names: their texts. counts: the number of spans or
    pairs of each text with a span, int64. truncated, empty: spans that were left out, because they were cut away and because
    no piece begins in them.
    """

    texts: int = 0
    rows: list[tuple[TokenSequence, SpanStatesObserver]] = field(default_factory=list)
    labels: NDArray[Any] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    names: list[tuple[str, ...]] = field(default_factory=list)
    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    truncated: int = 0
    empty: int = 0


class ProbePlan:
    """The parts to train on, to end training by, and to test on.

    target: mean and standard deviation of the training spans' numbers; of classes, they mean nothing.

    Raises InvalidArgument for a text that is too long or holds no token, for training spans of fewer than two classes or
    numbers, for a part without a span, and for spans that overlap too much.
    """

    def __init__(self, query: ProbeQuery, tokenizer: TextTokenizer) -> None:
        self.query = query
        train, dev, test = query.train, query.dev, query.test
        if not test and query.test_share:
            train, test = split_off(train, query.seed, query.test_share, draw=4)
        if not dev and query.dev_share:
            train, dev = split_off(train, query.seed, query.dev_share)
        overlap = Overlap()
        self.train, self.dev, self.test = (_read(query, part, tokenizer, overlap) for part in (train, dev, test))
        for name, part in (("train", self.train), ("dev", self.dev), ("test", self.test)):
            if not len(part.labels) and (part.texts or name == "train"):
                message = f"{name} has no span with a piece of its own; give texts with at least one"
                raise InvalidArgument(name, message, "NO_SPAN")
        labels = self.train.labels
        self.target = float(labels.mean()), float(labels.std())
        largest = max(float(np.abs(part.labels).max(initial=0)) for part in self.parts)
        if labels.dtype == np.float64 and self.target[1] <= ALIKE * largest:
            message = f"train has numbers that differ by less than rounding, beside one of {largest:g}; give different ones"
            raise InvalidArgument("train", message, "ONE_VALUE")
        if len(np.unique(labels)) < 2:
            message = "train has spans of one class alone, so there is nothing to tell apart; give spans of at least two"
            raise InvalidArgument("train", message, "ONE_CLASS")

    @property
    def parts(self) -> tuple[ProbePart, ProbePart, ProbePart]:
        return self.train, self.dev, self.test

    @property
    def spans(self) -> int:
        """The spans of all parts."""
        return sum(len(part.labels) for part in self.parts)

    def control_labels(self, seed: int) -> NDArray[Any]:
        """Returns the labels of the control task of all parts' spans, in order (Hewitt and Liang 2019, section 2).

        Each different text of a span has one class, or number, in all parts, drawn from those of the training spans.
        """
        generator = np.random.default_rng([seed, 1])
        numbers: dict[tuple[str, ...], int] = {}
        types = [numbers.setdefault(name, len(numbers)) for part in self.parts for name in part.names]
        return generator.choice(self.train.labels, size=len(numbers))[types]


class HasSpans(Protocol):
    """A text with marked spans."""

    @property
    def spans(self) -> Sequence[Span]: ...


T = TypeVar("T", bound=HasSpans)


def split_off(texts: Sequence[T], seed: int, share: float = DEV_SHARE, draw: int = 0) -> tuple[list[T], list[T]]:
    """Returns the training texts and a share of them, at least one with a span, that is split off. Another `draw`
    chooses others."""
    able = [index for index, text in enumerate(texts) if len(text.spans)]
    if len(able) < 2:
        message = "dev is empty, and train has fewer than two texts with a span to split some off; give more texts, or dev"
        raise InvalidArgument("dev", message, "NO_DEV")
    count = max(1, round(share * len(able)))
    chosen = set(np.random.default_rng([seed, draw]).choice(able, size=count, replace=False).tolist())
    parts: tuple[list[T], list[T]] = [], []
    for index, text in enumerate(texts):
        parts[index in chosen].append(text)
    return parts


class Overlap:
    """Bounds the pieces of a call's spans: a batch gathers the states of all pieces of all its spans."""

    def __init__(self) -> None:
        self._pieces = 0

    def add(self, field: str, sequence: TokenSequence, parts: Sequence[Units]) -> None:
        """Adds the spans of a text. Raises InvalidArgument for the text with which they are too many."""
        pieces = sum(len(spans.positions) for spans in parts)
        self._pieces += max(0, pieces - SPANS_OF_A_PIECE * len(sequence))
        if self._pieces > MAX_OVERLAP:
            message = (
                f"spans overlap so much, up to {field}, that their pieces, each counted once for every span that it is in, are "
                f"more than {MAX_OVERLAP} over {SPANS_OF_A_PIECE} for every piece of the texts; "
                "send shorter or fewer spans, or fewer texts at a time"
            )
            raise InvalidArgument(field, message, "TOO_MANY_TOKENS", limit=MAX_OVERLAP)


def _read(query: ProbeQuery, texts: Sequence[LabelledText], tokenizer: TextTokenizer, overlap: Overlap) -> ProbePart:
    part, labels = ProbePart(len(texts)), []
    inputs, fields = [text.input for text in texts], (text.field for text in texts)
    words = [[*text.spans, *text.others] for text in texts]
    read = read_named_inputs(tokenizer, inputs, fields, truncate=query.truncate, words=words)
    for text, tokenized in zip(texts, read, strict=True):
        places = SpanPlaces(tokenized, tokenizer)
        sides = [text.spans, text.others] if text.others else [text.spans]
        found = [[places.of(span) for span in side] for side in sides]
        missing = [reason_missing(own) for own in zip(*found, strict=True)]
        used = [index for index, reason in enumerate(missing) if reason is None]
        part.truncated += missing.count(TRUNCATED)
        part.empty += missing.count(EMPTY)
        if not used:
            continue
        parts = [spans for _, spans in row_units(found, used, query.pooling, len(tokenized))]
        overlap.add(f"{text.field.removesuffix('input')}spans", tokenized.sequence, parts)
        part.rows += [(tokenized.sequence, SpanStatesObserver(query.layers, spans)) for spans in parts]
        part.names += [tuple(_written(tokenized, side[index]) for side in sides) for index in used]
        labels.append(text.labels[used])
    if labels:
        part.labels, part.counts = np.concatenate(labels), np.array([len(own) for own in labels], dtype=np.int64)
    return part


def row_units(
    sides: Sequence[Sequence[range | str]], used: Sequence[int], pooling: Pooling, tokens: int
) -> Iterator[tuple[slice, Units]]:
    """Yields the used spans of a text of so many tokens in parts, each for a row of its own; a text with few has one.

    sides: the positions of each span's pieces; of pairs, of the first ones and of the second ones. A part is a slice of `used`,
    and units of all its first spans, then of all its second ones.
    """
    found = [[place for index in used if isinstance(place := side[index], range)] for side in sides]
    read = [[1 if pooling in (Pooling.FIRST, Pooling.LAST) else len(place) for place in side] for side in found]
    for part in within([sum(sizes) for sizes in zip(*read, strict=True)], max(ROW_PIECES, SPANS_OF_A_PIECE * tokens)):
        yield part, Units.made([place for side in found for place in side[part]], pooling)


def _written(tokenized: TokenizedText, span: Span) -> str:
    return tokenized.texts[span.segment][span.start : span.end]


TRUNCATED, EMPTY = "truncated", "empty"
"""Why a span has no states."""


def reason_missing(found: Sequence[range | str]) -> str | None:
    """Returns why a span, or a pair of spans, has no states; None if it has."""
    return TRUNCATED if TRUNCATED in found else EMPTY if EMPTY in found else None


class SpanPlaces:
    """Finds the pieces of a text's spans: those that begin in them."""

    def __init__(self, tokenized: TokenizedText, tokenizer: TextTokenizer) -> None:
        self._tokenized = tokenized
        self._pieces: dict[int, list[tuple[int, Piece]]] = {}
        for index, piece in enumerate(tokenized.pieces(tokenizer)):
            if not piece.special:
                self._pieces.setdefault(piece.segment, []).append((index, piece))
        self._starts = {segment: [piece.start for _, piece in own] for segment, own in self._pieces.items()}

    def of(self, span: Span) -> range | str:
        """Returns the positions of a span's pieces, or why it has none."""
        starts, pieces = self._starts.get(span.segment, []), self._pieces.get(span.segment, [])
        if self._tokenized.truncated:
            # The start of a text may be cut, or its end.
            first, last = (pieces[0][1].start, pieces[-1][1].end) if pieces else (0, 0)
            text = self._tokenized.texts[span.segment]
            if text[span.start : min(first, span.end)].strip() or text[max(last, span.start) : span.end].strip():
                return TRUNCATED
        begin, end = bisect_left(starts, span.start), bisect_left(starts, span.end)
        return range(pieces[begin][0], pieces[end - 1][0] + 1) if begin < end else EMPTY
