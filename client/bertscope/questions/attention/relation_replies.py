"""Reads the replies of ScoreRelations and ScoreFeatures."""

from __future__ import annotations

import numpy as np

from bertscope.errors import InvalidReply
from bertscope.questions.attention.feature_scores import FeatureScore, FeatureScores
from bertscope.questions.attention.relation_scores import DirectedSums, RelationScore, RelationScores, by_distance
from bertscope.questions.attention.selection import TextScore
from bertscope.questions.attention.sums import head_sums
from bertscope.v1 import attention_relations_pb2 as relations_pb2
from bertscope.values.merging import counts, numbers
from bertscope.values.messages import provenance, read


def read_relation_scores(message: relations_pb2.ScoreRelationsResponse) -> RelationScores:
    """Returns the scores of the texts of one call. Raises InvalidReply for a reply that breaks the contract."""
    shape = message.layers, message.heads
    names = [relation.relation for relation in message.relations]
    _require_distinct(names, "relation")
    details: list[list[TextScore]] = [[] for _ in names]
    for detail in message.details:
        if detail.relation >= len(names):
            raise InvalidReply(f"the server sent scores of relation {detail.relation}, of {len(names)}")
        found = (counts(values, shape, "a text") for values in (detail.forward_correct, detail.backward_correct))
        offsets = tuple(detail.offsets)
        details[detail.relation].append(TextScore(offsets, *(values.astype(np.uint16) for values in found)))
    relations = {
        name: read(
            RelationScore,
            relation,
            relation=name,
            offsets=by_distance({each.offset: each.pairs for each in relation.offsets}),
            forward=_directed(relation.forward, shape, name),
            backward=_directed(relation.backward, shape, name),
            details=tuple(texts),
        )
        for name, relation, texts in zip(names, message.relations, details, strict=True)
    }
    return RelationScores(*shape, message.texts, relations, provenance(message.provenance))


def read_feature_scores(message: relations_pb2.ScoreFeaturesResponse) -> FeatureScores:
    """Returns the scores of the texts of one call. Raises InvalidReply for a reply that breaks the contract."""
    shape = message.layers, message.heads
    _require_distinct([feature.feature for feature in message.features], "feature")
    features = {
        feature.feature: FeatureScore(
            feature.feature,
            head_sums(feature.attention, shape, feature.feature),
            head_sums(feature.from_first_special, shape, feature.feature),
        )
        for feature in message.features
    }
    return FeatureScores(*shape, message.texts, features, provenance(message.provenance))


def _directed(message: relations_pb2.DirectedScores, shape: tuple[int, int], name: str) -> DirectedSums:
    return DirectedSums(
        head_sums(message.largest_weight, shape, name),
        head_sums(message.largest_weight_by_chance, shape, name),
        counts(message.correct, shape, name),
        numbers(message.correct_by_chance, shape, name),
    )


def _require_distinct(names: list[str], what: str) -> None:
    if len(set(names)) != len(names):
        raise InvalidReply(f"the server sent a {what} twice")
