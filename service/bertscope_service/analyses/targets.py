"""Finds what a target names in a text: positions, entries of the vocabulary and labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from bertscope_service.analyses.candidates import spell
from bertscope_service.analyses.lens import require_entry
from bertscope_service.analyses.objectives.labelled import find_label
from bertscope_service.analyses.observers.declared_pooling import WholeText
from bertscope_service.analyses.observers.predictions import LabelObserver
from bertscope_service.analyses.observers.targets import (
    AnswerTarget,
    EntryTarget,
    LabelTarget,
    NextSentenceTarget,
    Scale,
    SimilarityTarget,
    Target,
    ValueTarget,
    VectorObserver,
    WordLabelTarget,
)
from bertscope_service.analyses.observers.token_labels import TokenLabelObserver
from bertscope_service.analyses.passages import PASSAGE
from bertscope_service.analyses.probes import TRUNCATED, SpanPlaces
from bertscope_service.analyses.states import prompt_tokens
from bertscope_service.analyses.texts import character_before, mask_positions, read_input
from bertscope_service.analyses.words import Span
from bertscope_service.checkpoints.declared_pooling import DeclaredPooling
from bertscope_service.checkpoints.entry_words import Word
from bertscope_service.checkpoints.tokenized_text import TokenizedText
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.encoders.observer import Observer
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.errors import InvalidArgument


@dataclass(frozen=True, slots=True)
class MaskQuery:
    """A bertscope.v1.MaskTarget; `mask` is None for the only one."""

    answer: str
    other: str | None
    mask: int | None


@dataclass(frozen=True, slots=True)
class LabelQuery:
    """A bertscope.v1.LabelTarget, or a WordLabelTarget if it has a `word`; `label` is "" for the highest."""

    label: str
    other: str | None
    word: Span | None = None


@dataclass(frozen=True, slots=True)
class AnswerQuery:
    """A bertscope.v1.AnswerTarget."""

    answer: Span


@dataclass(frozen=True, slots=True)
class ValueQuery:
    """A bertscope.v1.ValueTarget."""


@dataclass(frozen=True, slots=True)
class SimilarityQuery:
    """A bertscope.v1.SimilarityTarget, with its pooling."""

    text: str
    pair: str | None
    pooling: DeclaredPooling


@dataclass(frozen=True, slots=True)
class NextSentenceQuery:
    """A bertscope.v1.NextSentenceTarget."""


TargetKind: TypeAlias = MaskQuery | LabelQuery | AnswerQuery | ValueQuery | SimilarityQuery | NextSentenceQuery


@dataclass(frozen=True, slots=True, eq=False)
class TargetQuery:
    """A bertscope.v1.Target. `field` names it in errors."""

    kind: TargetKind
    scale: Scale
    field: str

    @property
    def at_words(self) -> bool:
        """True if it is read at words of the text, which can't be deleted then."""
        return isinstance(self.kind, AnswerQuery) or (isinstance(self.kind, LabelQuery) and self.kind.word is not None)

    @property
    def prompt(self) -> str:
        """The text that a declared pooling puts before the text."""
        return self.kind.pooling.prompt if isinstance(self.kind, SimilarityQuery) else ""


@dataclass(frozen=True, slots=True, eq=False)
class Unresolved:
    """A target that needs a row first: its sequence and observer; `resolve` makes the target of its result."""

    sequence: TokenSequence
    observer: Observer
    resolve: Callable[[Any], Target]


class TargetReader:
    """Reads targets of texts for a model with these labels; `several`: any number of them may hold."""

    def __init__(self, tokenizer: TextTokenizer, labels: Sequence[str], *, several: bool) -> None:
        self._tokenizer, self._labels, self._several = tokenizer, labels, several

    def read(self, query: TargetQuery, text: TokenizedText) -> Target | Unresolved:
        """Finds what a target names in a text. Raises InvalidArgument for a mask, an entry, a label or a part that is not there
        or not clear."""
        field, scale = query.field, query.scale
        match query.kind:
            case MaskQuery() as mask:
                position = self._mask(mask, text, field)
                return EntryTarget(position, self._entries(mask, text, position, field), scale)
            case LabelQuery() as label:
                return self._label(label, text, scale, field)
            case AnswerQuery(answer=span):
                places = self._places(span, text, f"{field}.answer.answer")
                return AnswerTarget((places.start, places.stop - 1), scale)
            case SimilarityQuery() as similar:
                return self._similarity(similar, field)
            case NextSentenceQuery():
                _require_both(text, field)
                return NextSentenceTarget(scale)
        return ValueTarget()

    def _mask(self, query: MaskQuery, text: TokenizedText, field: str) -> int:
        """Returns the position of the mask."""
        own = field.removesuffix(".target")
        positions = mask_positions(text, self._tokenizer, own)
        if query.mask is None and len(positions) > 1:
            message = f"{own} has {len(positions)} masks; set target.mask.mask, from 0"
            raise InvalidArgument(f"{field}.mask.mask", message, "SEVERAL_MASKS")
        number = query.mask or 0
        if number >= len(positions):
            message = f"{field}.mask.mask is {number}; the text has masks 0 to {len(positions) - 1}"
            raise InvalidArgument(f"{field}.mask.mask", message, "MASK_OUT_OF_RANGE")
        return positions[number]

    def _entries(self, query: MaskQuery, text: TokenizedText, position: int, field: str) -> tuple[int, ...]:
        before = character_before(text, position)
        words = {"answer": query.answer} | ({} if query.other is None else {"other": query.other})
        ids = []
        for name, word in words.items():
            place = f"{field}.mask.{name}"
            ids.append(require_entry(Word(word, spell(word, self._tokenizer, before, place)), place))
        if len(set(ids)) < len(ids):
            message = f"{field}.mask.other is the same entry of the vocabulary as the answer; name another"
            raise InvalidArgument(f"{field}.mask.other", message, "SAME_ANSWER")
        return tuple(ids)

    def _label(self, query: LabelQuery, text: TokenizedText, scale: Scale, field: str) -> Target | Unresolved:
        field = f"{field}.label" if query.word is None else f"{field}.word_label"
        place = None if query.word is None else self._places(query.word, text, f"{field}.word").start
        other = () if query.other is None else (self._number(query.other, f"{field}.other"),)

        def target(label: int) -> Target:
            if (label,) == other:
                message = f"{field}.other is the label itself; name another, or leave it out"
                raise InvalidArgument(f"{field}.other", message, "SAME_LABEL")
            labels = (label, *other)
            return LabelTarget(labels, scale, self._several) if place is None else WordLabelTarget(place, labels, scale)

        if query.label:
            return target(self._number(query.label, f"{field}.label"))
        observer: Observer = LabelObserver() if place is None else TokenLabelObserver((place,))
        return Unresolved(text.sequence, observer, lambda scores: target(int(np.argmax(scores))))

    def _number(self, label: str, field: str) -> int:
        """Returns the index of a label."""
        return find_label(label, self._labels, field, self._tokenizer.owner, name_field="")

    def _places(self, span: Span, text: TokenizedText, field: str) -> range:
        """Returns the positions of the pieces of a part of a text."""
        found = SpanPlaces(text, self._tokenizer).of(span)
        if isinstance(found, range):
            return found
        if found == TRUNCATED:
            message = f"{field} is cut, as {text.truncated} tokens of the text were cut away; shorten the text"
            raise InvalidArgument(field, message, "SPAN_TRUNCATED")
        raise InvalidArgument(field, f"{field} holds the first character of no piece; name whole words", "NO_PIECE")

    def _similarity(self, query: SimilarityQuery, field: str) -> Unresolved:
        declared, tokenizer = query.pooling, self._tokenizer
        left_out = 0 if declared.pools_prompt else prompt_tokens(declared.prompt, tokenizer)
        whole = WholeText(declared, left_out)
        read = read_input(tokenizer, declared.prompt + query.text, query.pair, f"{field}.similarity.other", truncate=None)
        return Unresolved(read.sequence, VectorObserver(whole), lambda vector: SimilarityTarget(whole, vector))


def _require_both(text: TokenizedText, field: str) -> None:
    """Raises InvalidArgument for a pair of which one text is missing or holds no token."""
    if {0, PASSAGE} - set(text.encoding.sequence_ids):
        message = f"{field} needs a pair of texts with a token in each; set text_pair"
        raise InvalidArgument(field.removesuffix(".target") + ".text_pair", message, "NO_TEXT_PAIR")
