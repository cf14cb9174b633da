"""Builds the requests of ScoreRelations and ScoreFeatures from texts with marked words."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from itertools import chain
from typing import TypeVar, cast

from bertscope.errors import invalid_argument
from bertscope.questions.attention.marked_texts import FeatureText, Mark, RelationText, WordPair
from bertscope.v1 import attention_relations_pb2 as relations_pb2
from bertscope.v1 import common_pb2
from bertscope.values import validation
from bertscope.values.messages import Asked, Interventions, head_interventions, text_input
from bertscope.values.models import Model, model_name
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


def score_relations_request(
    *,
    model: str | Model | None,
    details: bool,
    interventions: Interventions,
    reference_texts: str | Iterable[str],
) -> relations_pb2.ScoreRelationsRequest:
    """Returns the request of ScoreRelations, without its texts and relations."""
    return relations_pb2.ScoreRelationsRequest(
        model=model_name("model", model),
        details=validation.flag("details", details),
        interventions=head_interventions(interventions),
        reference_texts=validation.texts("reference_texts", reference_texts),
    )


def score_features_request(
    *,
    model: str | Model | None,
    special_tokens: bool,
    interventions: Interventions,
    reference_texts: str | Iterable[str],
) -> relations_pb2.ScoreFeaturesRequest:
    """Returns the request of ScoreFeatures, without its texts and features."""
    return relations_pb2.ScoreFeaturesRequest(
        model=model_name("model", model),
        special_tokens=validation.flag("special_tokens", special_tokens),
        interventions=head_interventions(interventions),
        reference_texts=validation.texts("reference_texts", reference_texts),
    )


def asked_relation_texts(texts: RelationText | Iterable[RelationText], relations: Sequence[str] | None) -> Asked[RelationText]:
    """Returns the texts that have a pair of one of the relations, or of any; the others have nothing to score."""
    known = None if relations is None else frozenset(relations)
    return _asked(texts, RelationText, lambda text: any(known is None or pair[0] in known for pair in text.pairs))


def asked_feature_texts(
    texts: FeatureText | Iterable[FeatureText], features: Sequence[str] | None, *, special_tokens: bool
) -> Asked[FeatureText]:
    """Returns the texts that have one of the features, or any; all texts have special tokens."""
    known = None if features is None else frozenset(features)
    return _asked(
        texts, FeatureText, lambda text: special_tokens or any(known is None or mark[0] in known for mark in text.marks)
    )


def with_relation_texts(
    request: relations_pb2.ScoreRelationsRequest, relations: Sequence[str] | None, texts: Sequence[RelationText]
) -> relations_pb2.ScoreRelationsRequest:
    """Returns the request with some texts. Without `relations` it names those of these texts: replies merge by name."""
    if not texts:
        raise invalid_argument("texts", "no text has a pair of words, so there is nothing to score; give at least one pair")
    names = _indexed(relations, (pair[0] for pair in chain.from_iterable(text.pairs for text in texts)))
    result = relations_pb2.ScoreRelationsRequest()
    result.CopyFrom(request)
    result.relations.extend(names)
    result.texts.extend(relation_message(text, names) for text in texts)
    return result


def with_feature_texts(
    request: relations_pb2.ScoreFeaturesRequest, features: Sequence[str] | None, texts: Sequence[FeatureText]
) -> relations_pb2.ScoreFeaturesRequest:
    """Returns the request with some texts. Without `features` it names those of these texts: replies merge by name."""
    if not texts:
        raise invalid_argument("texts", "no text has a marked part, so there is nothing to score; mark one")
    names = _indexed(features, (mark[0] for mark in chain.from_iterable(text.marks for text in texts)))
    result = relations_pb2.ScoreFeaturesRequest()
    result.CopyFrom(request)
    result.features.extend(names)
    result.texts.extend(feature_message(text, names) for text in texts)
    return result


def names_of(field: str, names: str | Iterable[str] | None) -> list[str] | None:
    """Returns the names of relations or features, checked; None for those of the texts."""
    return None if names is None else validation.not_empty(field, validation.texts(field, names))


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

    if not isinstance(given, Sized):
        return Asked(chosen(), None, numbers)
    found = deque(chosen())
    return Asked(iter(found), len(found), numbers)


def _indexed(given: Sequence[str] | None, found: Iterable[str]) -> dict[str, int]:
    names = dict.fromkeys(found if given is None else given)
    return {name: index for index, name in enumerate(names)}
