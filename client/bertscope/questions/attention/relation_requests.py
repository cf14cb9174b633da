"""Builds the requests of ScoreRelations and ScoreFeatures from texts with marked words."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TypeVar, cast

from bertscope.errors import invalid_argument
from bertscope.questions.attention.marked_texts import FeatureText, Mark, RelationText, WordPair
from bertscope.v1 import attention_relations_pb2 as relations_pb2
from bertscope.v1 import common_pb2
from bertscope.values import validation
from bertscope.values.messages import Asked, asked, text_input, with_items
from bertscope.values.spans import Span

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
