"""Texts with marked words, linked pairs of words and words with a feature, and the requests about them."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple, TypeVar, cast

from bertscope.errors import invalid_argument
from bertscope.v1 import attention_relations_pb2 as relations_pb2
from bertscope.v1 import common_pb2
from bertscope.values import validation
from bertscope.values.display import record
from bertscope.values.messages import Asked, asked, text_input, with_items
from bertscope.values.positions import Span, parts, span
from bertscope.values.validation import TextOrPair

__all__ = ["FeatureText", "RelationText"]


class WordPair(NamedTuple):
    """A link between two words of a text."""

    relation: str
    """Name of the relation."""
    source: int
    """Index of the first word among the text's words: of a verb and its subject, the verb."""
    target: int
    """Index of the second word: the subject."""


class Mark(NamedTuple):
    """A part of a text that has a feature."""

    feature: str
    """Name of the feature."""
    start: int
    """First code point."""
    end: int
    """One past the last code point."""
    segment: int = 0
    """0 for the text, 1 for the second text of a pair."""


@record
class RelationText:
    """A text with linked words.

    >>> RelationText("The cat sleeps.", [("nsubj", 2, 1), ("det", 1, 0)]).words
    (Span(start=0, end=3, segment=0), Span(start=4, end=7, segment=0), Span(start=8, end=15, segment=0))
    """

    text: TextOrPair
    """The text, or a pair (text, text_pair)."""
    pairs: Sequence[tuple[str, int, int]]
    """The linked words: (relation, source, target), where source and target are indices of words."""
    words: Sequence[tuple[int, int] | tuple[int, int, int]] | None = None
    """The words in ascending order: (start, end) or (start, end, segment), code points; the parts between white space unless
    given."""

    def __post_init__(self) -> None:
        """Raises InvalidArgument for values that can't be sent; the server judges the others."""
        text = validation.text_or_pair("text", self.text)
        given = whitespace_words(text) if self.words is None else self.words
        words = validation.each("words", given, "tuples", span)
        validation.keep(self, words=words, pairs=validation.each("pairs", self.pairs, "tuples", _triple))


@record
class FeatureText:
    """A text with marked words.

    >>> FeatureText("The cat sleeps.", [("noun", 4, 7)]).marks
    (Mark(feature='noun', start=4, end=7, segment=0),)
    """

    text: TextOrPair
    """The text, or a pair (text, text_pair)."""
    marks: Sequence[tuple[str, int, int] | tuple[str, int, int, int]]
    """The marked parts: (feature, start, end) or (feature, start, end, segment), code points. All pieces of the vocabulary that
    begin in a part have the feature."""

    def __post_init__(self) -> None:
        """Raises InvalidArgument for values that can't be sent; the server judges the others."""
        validation.text_or_pair("text", self.text)
        validation.keep(self, marks=validation.each("marks", self.marks, "tuples", _mark))


def whitespace_words(text: TextOrPair) -> list[Span]:
    """Returns the parts of a text, or of both texts of a pair, between white space."""
    found = []
    for segment, part in enumerate([text] if isinstance(text, str) else text):
        end = 0
        for word in part.split():
            start = part.index(word, end)
            end = start + len(word)
            found.append(Span(start, end, segment))
    return found


def _triple(field: str, value: object) -> WordPair:
    name, source, target = parts(field, value, (3,), "(relation, source, target)")
    name = _name(f"{field}'s relation", name)
    return WordPair(name, validation.uint32(f"{field}'s source", source), validation.uint32(f"{field}'s target", target))


def _name(field: str, value: object) -> str:
    name = validation.text(field, value)
    if not name:
        raise invalid_argument(field, "is empty; name it")
    return name


def _mark(field: str, value: object) -> Mark:
    name, *place = parts(field, value, (3, 4), "(feature, start, end) or (feature, start, end, segment)")
    return Mark(_name(f"{field}'s feature", name), *(validation.uint32(field, part) for part in place))


Marked = TypeVar("Marked", RelationText, FeatureText)


def relation_message(text: RelationText, relations: Mapping[str, int]) -> relations_pb2.RelationText:
    """Returns a text whose pairs have the indices of their relations; pairs of other relations are left out."""
    words, pairs = cast("tuple[Span, ...]", text.words), cast("tuple[WordPair, ...]", text.pairs)
    message = relations_pb2.RelationText(input=text_input(text.text))
    for start, end, segment in words:
        message.words.add(start=start, end=end, segment=segment)
    for relation, source, target in pairs:
        if relation in relations:
            message.pairs.add(relation=relations[relation], source=source, target=target)
    return message


def feature_message(text: FeatureText, features: Mapping[str, int]) -> relations_pb2.FeatureText:
    """Returns a text whose marked parts have the indices of their features; other features are left out."""
    message = relations_pb2.FeatureText(input=text_input(text.text))
    for feature, start, end, segment in cast("tuple[Mark, ...]", text.marks):
        if feature in features:
            span = common_pb2.CharacterSpan(start=start, end=end, segment=segment)
            message.spans.add(feature=features[feature], span=span)
    return message


def asked_relation_texts(texts: RelationText | Iterable[RelationText], relations: Sequence[str]) -> Asked[RelationText]:
    """Returns the texts that have a pair of one of the relations, of any without them; the others have nothing to score."""
    known = frozenset(relations)
    return _asked(texts, RelationText, lambda text: any(not known or pair[0] in known for pair in text.pairs))


def asked_feature_texts(
    texts: FeatureText | Iterable[FeatureText], features: Sequence[str], *, special_tokens: bool
) -> Asked[FeatureText]:
    """Returns the texts that have one of the features, or any if there are none; all texts have special tokens."""
    known = frozenset(features)
    return _asked(texts, FeatureText, lambda text: special_tokens or any(not known or mark[0] in known for mark in text.marks))


def with_relation_texts(
    request: relations_pb2.ScoreRelationsRequest, texts: Sequence[RelationText]
) -> relations_pb2.ScoreRelationsRequest:
    """Returns the request with some texts. If it names no relations, it gets those of these texts: replies merge by name."""
    if not texts:
        raise invalid_argument("texts", "no text has a pair of words, so there is nothing to score; give at least one pair")
    names = _indexed(request.relations, (pair[0] for pair in chain.from_iterable(text.pairs for text in texts)))
    result = with_items(request, "texts", [relation_message(text, names) for text in texts])
    result.relations[:] = names
    return result


def with_feature_texts(
    request: relations_pb2.ScoreFeaturesRequest, texts: Sequence[FeatureText]
) -> relations_pb2.ScoreFeaturesRequest:
    """Returns the request with some texts. If it names no features, it gets those of these texts: replies merge by name."""
    if not texts:
        raise invalid_argument("texts", "no text has a marked part, so there is nothing to score; mark one")
    names = _indexed(request.features, (mark[0] for mark in chain.from_iterable(text.marks for text in texts)))
    result = with_items(request, "texts", [feature_message(text, names) for text in texts])
    result.features[:] = names
    return result


def _asked(texts: Marked | Iterable[Marked], kind: type[Marked], wanted: Callable[[Marked], bool]) -> Asked[Marked]:
    given = [texts] if isinstance(texts, kind) else validation.many("texts", texts, f"{kind.__name__}s")
    numbers = array("L")

    def chosen() -> Iterator[Marked]:
        for index, text in enumerate(given):
            if not isinstance(text, kind):
                raise invalid_argument(f"texts[{index}]", f"must be a {kind.__name__}, not {type(text).__name__}")
            if wanted(text):
                numbers.append(index)
                yield text

    return asked(given, chosen(), numbers)


def _indexed(given: Sequence[str], found: Iterable[str]) -> dict[str, int]:
    return {name: index for index, name in enumerate(dict.fromkeys(given or found))}
