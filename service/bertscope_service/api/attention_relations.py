"""ScoreRelations of the AttentionService: checks the words and pairs, renders the scores."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from bertscope.v1 import attention_relations_pb2 as relations_pb2
from numpy.typing import NDArray

from bertscope_service.analyses.observers.word_pairs import PairScores
from bertscope_service.analyses.relations import (
    DirectionSums,
    LinkedText,
    RelationDetail,
    RelationPlan,
    RelationQuery,
)
from bertscope_service.analyses.words import Span
from bertscope_service.api.attention_description import render_sums
from bertscope_service.api.checks import read_text
from bertscope_service.api.limits import RequestLimits
from bertscope_service.api.provenance import render_provenance
from bertscope_service.api.requirements import require_observable
from bertscope_service.api.spans import check_span
from bertscope_service.errors import InvalidArgument
from bertscope_service.models.loaded import LoadedModel


def plan_relations(request: relations_pb2.ScoreRelationsRequest, model: LoadedModel, limits: RequestLimits) -> RelationPlan:
    """Plans the answer. Raises InvalidArgument, and Unsupported for a model whose attention can't be observed."""
    require_observable(model)
    return RelationPlan(parse_relations(request, limits), model.tokenizer, model.encoder.shape)


def parse_relations(request: relations_pb2.ScoreRelationsRequest, limits: RequestLimits) -> RelationQuery:
    """Converts the request to a query. Raises InvalidArgument."""
    texts = tuple(
        read_relation_text(text, f"texts[{index}]", len(request.relations)) for index, text in enumerate(request.texts)
    )
    if not any(len(text.pairs) for text in texts):
        raise InvalidArgument("texts", "no text has a pair, so there is nothing to score; give at least one pair", "NO_PAIR")
    return RelationQuery(texts, tuple(request.relations), request.details)


def read_relation_text(text: relations_pb2.RelationText, field: str, relations: int) -> LinkedText:
    """Returns a text with its words and pairs, checked. `relations`: how many there are. Raises InvalidArgument."""
    given = read_text(text.input)
    words = [check_span(span, f"{field}.words[{index}]", given) for index, span in enumerate(text.words)]
    for index, (before, word) in enumerate(pairwise(words), start=1):
        _check_order(before, word, f"{field}.words[{index}]")
    return LinkedText(given, tuple(words), _pairs(text.pairs, f"{field}.pairs", words, relations))


def _check_order(before: Span, word: Span, field: str) -> None:
    """Checks that a word is after the one before it, and does not overlap it."""
    if (word.segment, word.start) < (before.segment, before.start):
        message = f"{field} is before the word that precedes it in the list; sort words by segment and start"
        raise InvalidArgument(field, message, "WORDS_NOT_ASCENDING")
    if word.segment == before.segment and word.start < before.end:
        message = f"{field} starts at {word.start} and the word before it ends at {before.end}; words must not overlap"
        raise InvalidArgument(field, message, "WORDS_OVERLAP")


def _pairs(pairs: Sequence[relations_pb2.WordPair], field: str, words: Sequence[Span], relations: int) -> NDArray[np.int64]:
    """Returns checked pairs: relation, source, target, [n, 3]."""
    rows = [(pair.relation, pair.source, pair.target) for pair in pairs]
    count, seen = len(words), set[tuple[int, int, int]]()
    for index, row in enumerate(rows):
        relation, source, target = row
        known = relation < relations and source < count and target < count and source != target and row not in seen
        if not known or words[source].segment != words[target].segment:
            _refuse(row, f"{field}[{index}]", words, relations)
        seen.add(row)
    return np.array(rows, dtype=np.int64).reshape(-1, 3)


def _refuse(row: tuple[int, int, int], field: str, words: Sequence[Span], relations: int) -> None:
    """Raises InvalidArgument for a pair that can't be scored."""
    relation, source, target = row
    if relation >= relations:
        message = f"{field}.relation is {relation}; relations has {relations} entries, counted from 0"
        raise InvalidArgument(f"{field}.relation", message, "RELATION_OUT_OF_RANGE")
    for name, word in (("source", source), ("target", target)):
        if word >= len(words):
            message = f"{field}.{name} is {word}; the text has {len(words)} words, counted from 0"
            raise InvalidArgument(f"{field}.{name}", message, "WORD_OUT_OF_RANGE")
    if source == target:
        message = f"{field} links word {source} with itself; link two different words"
        raise InvalidArgument(f"{field}.target", message, "SAME_WORD")
    if words[source].segment != words[target].segment:
        message = f"{field} links words of both texts of a pair; link words of one text"
        raise InvalidArgument(f"{field}.target", message, "PAIR_ACROSS_TEXTS")
    raise InvalidArgument(field, f"{field} is listed twice; list each pair once", "DUPLICATE")


def render_relations(
    plan: RelationPlan, results: Sequence[PairScores], model: LoadedModel
) -> relations_pb2.ScoreRelationsResponse:
    sums = plan.answer(results)
    response = relations_pb2.ScoreRelationsResponse(
        layers=plan.shape.layers, heads=plan.shape.heads, texts=len(plan.texts), provenance=render_provenance(model)
    )
    for index, name in enumerate(plan.query.relations):
        offsets = sorted(plan.offsets[index].items(), key=lambda entry: (abs(entry[0]), entry[0]))
        response.relations.add(
            relation=name,
            pairs=int(plan.pairs[index]),
            skipped_pairs=int(plan.skipped[index]),
            chance_pairs=int(plan.chance_pairs[index]),
            offsets=[relations_pb2.OffsetCount(offset=offset, pairs=count) for offset, count in offsets],
            forward=_render_direction(sums.forward, index),
            backward=_render_direction(sums.backward, index),
        )
    response.details.extend(map(_render_detail, sums.details))
    return response


def _render_direction(sums: DirectionSums, relation: int) -> relations_pb2.DirectedScores:
    return relations_pb2.DirectedScores(
        largest_weight=render_sums(sums.largest.of(relation)),
        largest_weight_by_chance=render_sums(sums.largest_by_chance.of(relation)),
        correct=sums.correct[relation].ravel().tolist(),
        correct_by_chance=sums.correct_by_chance[relation].ravel().tolist(),
    )


def _render_detail(detail: RelationDetail) -> relations_pb2.RelationDetail:
    return relations_pb2.RelationDetail(
        text_index=detail.text,
        relation=detail.relation,
        offsets=detail.offsets.tolist(),
        forward_correct=detail.forward.ravel().tolist(),
        backward_correct=detail.backward.ravel().tolist(),
    )
