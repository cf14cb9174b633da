"""Facts to ask a model for, and the requests of QueryFacts that they make."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from typing import Any, SupportsIndex, cast

from bertscope.errors import invalid_argument
from bertscope.v1 import cloze_facts_pb2
from bertscope.values import validation
from bertscope.values.choices import ObjectScoring
from bertscope.values.display import record
from bertscope.values.messages import Asked, Interventions, head_interventions, values
from bertscope.values.models import Model, model_name

__all__ = ["Fact", "FactRelation", "FactTemplate"]

SCORINGS = values(ObjectScoring, cloze_facts_pb2.ObjectScoring, "OBJECT_SCORING_")


@record
class FactTemplate:
    """A sentence with "[X]" for the subject and "[Y]" for the object, each once."""

    text: str
    """The sentence."""
    negated: bool = False
    """True for a negated sentence ("[X] is not the capital of [Y]."), of which the right object is a wrong answer."""

    def __post_init__(self) -> None:
        """Raises InvalidArgument for values that can't be sent; the server judges the others."""
        validation.text("text", self.text)
        validation.flag("negated", self.negated)


@record
class FactRelation:
    """A relation, and the templates that express it.

    >>> FactRelation("capital", "The capital of [X] is [Y].").templates
    (FactTemplate(text='The capital of [X] is [Y].', negated=False),)
    """

    name: str
    """Its name ("P36")."""
    templates: str | FactTemplate | Sequence[str | FactTemplate]
    """Its templates; a string is one that is not negated. A tuple of FactTemplate, once it is made."""
    candidates: str | Iterable[str] = ()
    """Objects to rank among; none mean the vocabulary. A tuple, once it is made."""

    def __post_init__(self) -> None:
        """Raises InvalidArgument for values that can't be sent; the server judges the others."""
        validation.text("name", self.name)
        given = [self.templates] if isinstance(self.templates, (str, FactTemplate)) else self.templates
        found = validation.many("templates", given, "templates")
        object.__setattr__(self, "templates", tuple(_template(f"templates[{i}]", each) for i, each in enumerate(found)))
        object.__setattr__(self, "candidates", tuple(validation.texts("candidates", self.candidates)))

    @property
    def affirmed(self) -> tuple[int, ...]:
        """Indices of the templates that are not negated."""
        return tuple(index for index, template in enumerate(templates_of(self)) if not template.negated)


@record
class Fact:
    """A subject and its right objects.

    >>> Fact("France", "Paris").objects
    ('Paris',)
    """

    subject: str
    """The subject."""
    objects: str | Iterable[str]
    """The right object, or several, of which the best rank counts. A tuple, once it is made."""
    relation: str = ""
    """Name of the relation; may be left out where there is only one."""
    primes: str | Iterable[str] = ()
    """Words that misprime: each template is asked once more for each, with "word? " before it. A tuple, once it is made."""

    def __post_init__(self) -> None:
        """Raises InvalidArgument for values that can't be sent; the server judges the others."""
        validation.text("subject", self.subject)
        validation.text("relation", self.relation)
        for name in ("objects", "primes"):
            object.__setattr__(self, name, tuple(validation.texts(name, getattr(self, name))))

    def to_row(self) -> dict[str, Any]:
        """Returns its columns in the files of `write_items`."""
        return {"relation": self.relation, "subject": self.subject, "objects": self.objects, "primes": self.primes}


Relations = FactRelation | Iterable[FactRelation]
"""One relation, or many."""


def templates_of(relation: FactRelation) -> tuple[FactTemplate, ...]:
    """Returns the templates of a relation."""
    return cast("tuple[FactTemplate, ...]", relation.templates)


def relations_by_name(relations: Relations) -> dict[str, FactRelation]:
    """Returns relations by their names, in order."""
    given = [relations] if isinstance(relations, FactRelation) else validation.many("relations", relations, "FactRelations")
    found: dict[str, FactRelation] = {}
    for index, relation in enumerate(given):
        if not isinstance(relation, FactRelation):
            raise invalid_argument(f"relations[{index}]", f"must be a FactRelation, not {type(relation).__name__}")
        if relation.name in found:
            raise invalid_argument(f"relations[{index}]", f"{relation.name!r} is there twice; list its templates together")
        found[relation.name] = relation
    if not found:
        raise invalid_argument("relations", "is empty; give at least one")
    return found


def asked_facts(facts: Fact | Iterable[Fact], relations: Mapping[str, FactRelation]) -> Asked[Fact]:
    """Returns any number of facts, each with the name of its relation. A sequence is checked at once, an iterator as it is
    read."""
    given = [facts] if isinstance(facts, Fact) else validation.many("facts", facts, "Facts")
    found = _checked(given, relations)
    if isinstance(given, Sized):
        checked = list(found)
        if not checked:
            raise invalid_argument("facts", "is empty; give at least one")
        return Asked(iter(checked), len(checked))
    return Asked(found, None)


def _checked(facts: Iterable[object], relations: Mapping[str, FactRelation]) -> Iterator[Fact]:
    only = next(iter(relations)) if len(relations) == 1 else ""
    for index, fact in enumerate(facts):
        if not isinstance(fact, Fact):
            raise invalid_argument(f"facts[{index}]", f"must be a Fact, not {type(fact).__name__}")
        if not fact.relation and only:
            fact = Fact(fact.subject, fact.objects, only, fact.primes)
        if fact.relation not in relations:
            raise invalid_argument(f"facts[{index}]", f"its relation {fact.relation!r} is not among the relations; add it")
        yield fact


def query_facts_request(
    *,
    model: str | Model | None,
    vocabulary: str | Iterable[str],
    scoring: ObjectScoring,
    max_pieces: SupportsIndex | None,
    top_k: SupportsIndex,
    prior: bool,
    interventions: Interventions,
    reference_texts: str | Iterable[str],
) -> cloze_facts_pb2.QueryFactsRequest:
    """Returns the request of QueryFacts, without its relations and facts."""
    return cloze_facts_pb2.QueryFactsRequest(
        model=model_name("model", model),
        vocabulary=validation.texts("vocabulary", vocabulary),
        scoring=validation.choice("scoring", scoring, SCORINGS),
        max_pieces=None if max_pieces is None else validation.positive("max_pieces", max_pieces),
        top_k=validation.uint32("top_k", top_k),
        prior=validation.flag("prior", prior),
        interventions=head_interventions(interventions),
        reference_texts=validation.texts("reference_texts", reference_texts),
    )


def with_facts(
    request: cloze_facts_pb2.QueryFactsRequest, relations: Mapping[str, FactRelation], facts: Sequence[Fact]
) -> cloze_facts_pb2.QueryFactsRequest:
    """Returns the request with some facts, and their relations: replies are read by their order."""
    result = cloze_facts_pb2.QueryFactsRequest()
    result.CopyFrom(request)
    numbers = {name: number for number, name in enumerate(relations_asked(facts))}
    for name in numbers:
        relation = relations[name]
        message = result.relations.add(name=name, candidates=relation.candidates)
        for template in templates_of(relation):
            message.templates.add(text=template.text, negated=template.negated)
    for fact in facts:
        result.facts.add(relation=numbers[fact.relation], subject=fact.subject, objects=fact.objects, primes=fact.primes)
    return result


def relations_asked(facts: Iterable[Fact]) -> list[str]:
    """Returns the names of the relations of some facts, in the order of a request."""
    return list(dict.fromkeys(fact.relation for fact in facts))


def _template(field: str, value: object) -> FactTemplate:
    return value if isinstance(value, FactTemplate) else FactTemplate(validation.text(field, value))
