"""Plans what tuned lenses and sparse codes are trained on: the pieces of texts without labels, some of them masked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bertscope_service.analyses.observers.pooling import Pooling, Units
from bertscope_service.analyses.observers.span_states import SpanStatesObserver
from bertscope_service.analyses.probes import split_off
from bertscope_service.analyses.texts import masked, read_named_inputs
from bertscope_service.analyses.words import Span
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.errors import InvalidArgument


@dataclass(frozen=True, slots=True)
class GivenText:
    """A text of a part: its field, and its text or pair."""

    field: str
    input: tuple[str, str | None]

    @property
    def spans(self) -> Sequence[Span]:
        """The text as a whole."""
        return (Span(0, len(self.input[0]), 0),)


@dataclass(frozen=True, slots=True)
class PiecesQuery:
    """The texts of a request. `layers`: the states that are read, ascending; `pieces`: the most of both parts."""

    train: Sequence[GivenText]
    dev: Sequence[GivenText]
    layers: tuple[int, ...]
    mask_rate: float
    truncate: bool
    seed: int
    pieces: int


@dataclass(slots=True, eq=False)
class PiecesPart:
    """One part of the texts. rows: each text with pieces of its own, with what reads their states; hidden: of each row, the
    places that were masked by chance, and int64 ids of what stood there; pieces, masked: their number, and that of masks, also
    those that texts have; truncated: tokens that were cut away."""

    texts: int
    rows: list[tuple[TokenSequence, SpanStatesObserver]] = field(default_factory=list)
    hidden: list[tuple[tuple[int, ...], NDArray[np.int64]]] = field(default_factory=list)
    pieces: int = 0
    masked: int = 0
    truncated: int = 0


class PiecesPlan:
    """The parts to train on, and to end training by.

    Raises InvalidArgument for a text that is too long, for a part without a piece but special tokens, and for too many pieces.
    """

    def __init__(self, query: PiecesQuery, tokenizer: TextTokenizer) -> None:
        self.query, self.tokenizer = query, tokenizer
        train, dev = query.train, query.dev
        if not dev:
            train, dev = split_off(train, query.seed)
        generator = np.random.default_rng([query.seed, 1])
        self.train, self.dev = (_read(query, part, tokenizer, generator) for part in (train, dev))
        for name, part in (("train", self.train), ("dev", self.dev)):
            if not part.pieces:
                message = f"{name} has no piece but special tokens; give texts with words"
                raise InvalidArgument(name, message, "NO_TRAINING_PIECE")
        if self.pieces > query.pieces:
            message = f"train and dev have {self.pieces} pieces together and one call takes {query.pieces}; leave some out"
            raise InvalidArgument("train", message, "TOO_MANY_SPANS", limit=query.pieces)

    @property
    def parts(self) -> tuple[PiecesPart, PiecesPart]:
        return self.train, self.dev

    @property
    def pieces(self) -> int:
        """The pieces of both parts."""
        return self.train.pieces + self.dev.pieces


def _read(
    query: PiecesQuery, texts: Sequence[GivenText], tokenizer: TextTokenizer, generator: np.random.Generator
) -> PiecesPart:
    part = PiecesPart(len(texts))
    inputs, fields = [text.input for text in texts], (text.field for text in texts)
    for tokenized in read_named_inputs(tokenizer, inputs, fields, truncate=query.truncate):
        part.truncated += tokenized.truncated
        # A mask that the text has is a special token that stands for a word.
        ids = tokenized.sequence.ids
        places = [
            place
            for place, piece in enumerate(tokenized.pieces(tokenizer))
            if not piece.special or ids[place] == tokenizer.mask_id
        ]
        if not places:
            continue
        drawn = generator.random(len(places)) < query.mask_rate
        hidden = [place for place, chosen in zip(places, drawn, strict=True) if chosen]
        sequence = masked(tokenized.sequence, hidden, tokenizer) if hidden else tokenized.sequence
        part.rows.append((sequence, SpanStatesObserver(query.layers, Units.made([[place] for place in places], Pooling.FIRST))))
        part.hidden.append((tuple(hidden), np.array([ids[place] for place in hidden], dtype=np.int64)))
        part.pieces += len(places)
        part.masked += sum(sequence.ids[place] == tokenizer.mask_id for place in places)
    return part
