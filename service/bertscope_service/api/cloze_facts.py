"""QueryFacts of the ClozeService: checks relations and facts, renders ranks and counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bertscope.v1 import cloze_facts_pb2 as facts_pb2

from bertscope_service.analyses.decoded_facts import DECODINGS, DecodedFactPlan
from bertscope_service.analyses.fact_choices import Skipped
from bertscope_service.analyses.fact_queries import OBJECT, SUBJECT, Fact, FactQuery, Relation, Scoring, Template
from bertscope_service.analyses.facts import FactAnswer, FactPlan
from bertscope_service.api.enums import members, numbers
from bertscope_service.api.field_checks import QUERY_FACTS_MAX_PIECES, QUERY_FACTS_TOP_K
from bertscope_service.api.limits import RequestLimits
from bertscope_service.api.provenance import render_provenance
from bertscope_service.api.request_memory import request_bytes
from bertscope_service.api.requirements import require_cloze
from bertscope_service.api.spans import check_names
from bertscope_service.checkpoints.mask_names import MASK
from bertscope_service.errors import InvalidArgument
from bertscope_service.models.loaded import LoadedModel

SCORINGS = members(Scoring, facts_pb2.ObjectScoring, "OBJECT_SCORING_")
SCORING_NUMBERS = numbers(Scoring, facts_pb2.ObjectScoring, "OBJECT_SCORING_")
SKIPPED = numbers(Skipped, facts_pb2.FactResult.Skipped, "SKIPPED_")


def facts_size(request: facts_pb2.QueryFactsRequest) -> int:
    """Returns roughly how many characters a request makes the tokenizer read."""
    longest = max((sum(len(template.text) for template in relation.templates) for relation in request.relations), default=0)
    return request_bytes(request) + longest * len(request.facts)


def plan_facts(request: facts_pb2.QueryFactsRequest, model: LoadedModel, limits: RequestLimits) -> FactPlan:
    """Plans the answer. Raises InvalidArgument, and Unsupported for a model that can't fill masks."""
    require_cloze(model)
    masks = tuple({MASK, model.tokenizer.mask_token or MASK})
    query = parse_facts(request, model.encoder.shape.vocabulary_size, masks, limits)
    return (DecodedFactPlan if query.scoring in DECODINGS else FactPlan)(query, model.tokenizer)


def parse_facts(request: facts_pb2.QueryFactsRequest, entries: int, masks: tuple[str, ...], limits: RequestLimits) -> FactQuery:
    """Converts the request to a query of a model with `entries` in its vocabulary and these mask tokens. Raises
    InvalidArgument."""
    scoring = SCORINGS[request.scoring or facts_pb2.OBJECT_SCORING_SINGLE_ENTRY]
    check_names([relation.name for relation in request.relations], "relations")
    relations = tuple(_relation(each, f"relations[{i}]", scoring, masks) for i, each in enumerate(request.relations))
    facts = tuple(_fact(each, f"facts[{i}]", len(relations), masks) for i, each in enumerate(request.facts))
    if request.vocabulary and scoring is not Scoring.SINGLE_ENTRY:
        raise _unused("vocabulary")
    if request.prior and scoring is not Scoring.SINGLE_ENTRY:
        raise _unused("prior")
    return FactQuery(
        relations,
        facts,
        entries,
        tuple(request.vocabulary),
        scoring,
        top_k=min(request.top_k if request.HasField("top_k") else QUERY_FACTS_TOP_K, entries),
        prior=request.prior,
        max_pieces=_max_pieces(request, scoring),
        max_row_tokens=limits.tokens,
    )


def _max_pieces(request: facts_pb2.QueryFactsRequest, scoring: Scoring) -> int:
    if scoring not in DECODINGS:
        if request.HasField("max_pieces"):
            message = "max_pieces is only for OBJECT_SCORING_LEFT_TO_RIGHT and OBJECT_SCORING_CONFIDENCE_FIRST; leave it out"
            raise InvalidArgument("max_pieces", message, "UNUSED")
        return 1
    return request.max_pieces if request.HasField("max_pieces") else QUERY_FACTS_MAX_PIECES


def _unused(field: str) -> InvalidArgument:
    return InvalidArgument(field, f"{field} is only for OBJECT_SCORING_SINGLE_ENTRY; leave it out", "UNUSED")


def _relation(relation: facts_pb2.FactRelation, field: str, scoring: Scoring, masks: tuple[str, ...]) -> Relation:
    templates = tuple(_template(each, f"{field}.templates[{i}]", masks) for i, each in enumerate(relation.templates))
    _check_distinct([template.text for template in templates], f"{field}.templates")
    if scoring is Scoring.CANDIDATES and not relation.candidates:
        message = f"{field}.candidates is empty; OBJECT_SCORING_CANDIDATES scores the candidates of each relation"
        raise InvalidArgument(f"{field}.candidates", message, "EMPTY_LIST")
    if scoring in DECODINGS and relation.candidates:
        message = f"{field}.candidates is only for OBJECT_SCORING_SINGLE_ENTRY and OBJECT_SCORING_CANDIDATES; leave it out"
        raise InvalidArgument(f"{field}.candidates", message, "UNUSED")
    return Relation(templates, tuple(relation.candidates))


def _template(template: facts_pb2.FactTemplate, field: str, masks: tuple[str, ...]) -> Template:
    text = _without_mask(template.text, f"{field}.text", masks)
    for place, name in ((SUBJECT, "subject"), (OBJECT, "object")):
        found = text.count(place)
        if found != 1:
            message = f"{field}.text has {place} {found} times; write it once, where the {name} goes"
            raise InvalidArgument(f"{field}.text", message, "TEMPLATE_PLACES")
    return Template(text, template.negated)


def _fact(fact: facts_pb2.Fact, field: str, relations: int, masks: tuple[str, ...]) -> Fact:
    if fact.relation >= relations:
        message = f"{field}.relation is {fact.relation}; relations has {relations} entries, counted from 0"
        raise InvalidArgument(f"{field}.relation", message, "RELATION_OUT_OF_RANGE")
    subject = _without_mask(fact.subject, f"{field}.subject", masks)
    primes = tuple(_without_mask(prime, f"{field}.primes[{i}]", masks) for i, prime in enumerate(fact.primes))
    return Fact(fact.relation, subject, tuple(fact.objects), primes)


def _check_distinct(texts: Sequence[str], field: str) -> None:
    if len(set(texts)) < len(texts):
        seen: set[str] = set()
        index = next(i for i, text in enumerate(texts) if text in seen or seen.add(text))  # type: ignore[func-returns-value]
        raise InvalidArgument(
            f"{field}[{index}]", f"{field}[{index}] is listed for the second time; list each once", "DUPLICATE"
        )


def _without_mask(text: str, field: str, masks: tuple[str, ...]) -> str:
    if any(mask in text for mask in masks):
        message = f"{field} has a mask; a question has one mask, for {OBJECT}"
        raise InvalidArgument(field, message, "MASK_UNEXPECTED")
    return text


def render_facts(plan: FactPlan, results: Sequence[Any], model: LoadedModel) -> facts_pb2.QueryFactsResponse:
    query, answers = plan.query, plan.answer(results)
    response = facts_pb2.QueryFactsResponse(
        ranked_among=plan.ranked_among,
        vocabulary_left_out=plan.vocabulary_left_out,
        scoring=SCORING_NUMBERS[query.scoring],
        provenance=render_provenance(model),
    )
    for index, fact in enumerate(query.facts):
        contained = any(word.lower() in fact.subject.lower() for word in fact.objects)
        result = response.results.add(object_in_subject=contained)
        if index in plan.skipped:
            result.skipped = SKIPPED[plan.skipped[index]]
        for each in answers[index]:
            _render(each, result)
    _count(query, answers, response)
    return response


def _render(answer: FactAnswer, result: facts_pb2.FactResult) -> None:
    rendered = result.answers.add(
        template=answer.template, prime=answer.prime, rank=answer.rank, object=answer.object, log_probability=answer.log
    )
    if answer.prior is not None:
        rendered.prior_rank, rendered.prior_log_probability = answer.prior
    for word, log in answer.top:
        rendered.predictions.add(object=word, log_probability=log)


def _count(query: FactQuery, answers: Sequence[Sequence[FactAnswer]], response: facts_pb2.QueryFactsResponse) -> None:
    """Adds the counts of each template."""
    counts = [
        [response.counts.add(relation=number, template=template) for template in range(len(relation.templates))]
        for number, relation in enumerate(query.relations)
    ]
    for fact, asked in zip(query.facts, answers, strict=True):
        for each in asked:
            if each.prime is None:
                count = counts[fact.relation][each.template]
                count.facts += 1
                count.hits_at_1 += each.rank == 1
                if each.rank is not None:
                    count.hits_at_10 += each.rank <= 10
                    count.reciprocal_rank_sum += 1 / each.rank
