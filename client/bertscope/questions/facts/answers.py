"""The answers of QueryFacts: ranks of right objects, fact by fact."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, cast

from bertscope.errors import InvalidReply
from bertscope.questions.facts.questions import Fact, FactRelation, relations_asked, templates_of
from bertscope.v1 import cloze_facts_pb2
from bertscope.values.display import record
from bertscope.values.lazy import made
from bertscope.values.messages import enum_name, provenance
from bertscope.values.results import Provenance

__all__ = ["FactAnswer", "FactPrediction", "FactResult"]


@record
class FactPrediction:
    """An object that the model gives."""

    object: str
    """The word as one would write it; a candidate as it was given."""
    log_probability: float
    """Natural logarithm of its probability among the whole vocabulary; with several entries, the mean over them."""


@record
class FactAnswer:
    """The answer to one template."""

    template: int
    """Index of the template in its relation."""
    prime: str | None
    """The word that misprimed; None without one."""
    rank: int | None
    """Rank of the best right object, from 1; None if decoding gave none."""
    object: str | None
    """The right object of this rank; None where that is."""
    log_probability: float | None
    """Natural logarithm of its probability; None where the rank is."""
    prior_rank: int | None
    """Its rank with a mask in place of the subject; None unless requested."""
    prior_log_probability: float | None
    """Natural logarithm of its probability there."""
    predictions: tuple[FactPrediction, ...]
    """The likeliest objects, likeliest first."""


ANSWER_FIELDS: Mapping[str, str] = {
    "template": "templates",
    "prime": "primed_by",
    "rank": "ranks",
    "object": "right_objects",
    "log_probability": "log_probabilities",
    "prior_rank": "prior_ranks",
    "prior_log_probability": "prior_log_probabilities",
}
"""By field of an answer: the column of rows that has a list of it."""
ROW_COLUMNS = (
    *("skipped", "object_in_subject", *ANSWER_FIELDS.values(), "predictions", "prediction_log_probabilities"),
    *("ranked_among", "vocabulary_left_out", "scoring"),
)
"""The columns of `FactResult.to_row`."""


@record
class FactResult:
    """The answers about one fact."""

    fact: Fact
    """The fact."""
    answers: tuple[FactAnswer, ...]
    """One for each template, in order, then for each prime one for each template; empty if the fact was skipped."""
    skipped: str | None
    """The reason why it was not asked: "several_pieces", "not_among_candidates", "not_writable" or "too_long"; None if it
    was."""
    object_in_subject: bool
    """True if the subject contains a right object, letter case ignored: the string match filter of Poerner et al. 2020."""
    ranked_among: int
    """Number of entries, candidates or fillings that the objects of its relation were ranked among; 0 if none was asked."""
    vocabulary_left_out: int
    """Words of the given vocabulary that are no single entry of the model's."""
    scoring: str
    """The scoring that was used: "single_entry", "candidates", "left_to_right" or "confidence_first"."""
    provenance: Provenance = field(repr=False)
    """Provenance of the answers."""

    def answer(self, template: int, prime: str | None = None) -> FactAnswer:
        """Returns the answer to a template, without a prime unless one is given. Raises KeyError if there is none."""
        for each in self.answers:
            if each.template == template and each.prime == prime:
                return each
        raise KeyError((template, prime))

    def to_row(self) -> dict[str, Any]:
        """Returns the columns of `write_items`: of lists, one entry for each answer; `read_fact_rows` makes the result of
        them."""
        lists = [[getattr(answer, name) for answer in self.answers] for name in ANSWER_FIELDS]
        predictions = [answer.predictions for answer in self.answers]
        values = (
            *(self.skipped, self.object_in_subject, *lists),
            [[each.object for each in found] for found in predictions],
            [[each.log_probability for each in found] for found in predictions],
            *(self.ranked_among, self.vocabulary_left_out, self.scoring),
        )
        return dict(zip(ROW_COLUMNS, values, strict=True))


def read_facts_reply(
    relations: Mapping[str, FactRelation], facts: Sequence[Fact], response: cloze_facts_pb2.QueryFactsResponse
) -> list[FactResult]:
    """Returns the answers of a call, each with its fact. Raises InvalidReply if they don't belong together."""
    names = relations_asked(facts)
    if len(response.results) != len(facts):
        raise InvalidReply(f"the server answered {len(response.results)} of {len(facts)} facts")
    if len(response.ranked_among) != len(names):
        raise InvalidReply(f"the server answered about {len(response.ranked_among)} of {len(names)} relations")
    sizes = {name: len(templates_of(relations[name])) for name in names}
    among = dict(zip(names, response.ranked_among, strict=True))
    scoring = enum_name(cloze_facts_pb2.ObjectScoring, response.scoring, "OBJECT_SCORING_")
    source = provenance(response.provenance)
    found = []
    for fact, message in zip(facts, response.results, strict=True):
        if any(answer.template >= sizes[fact.relation] for answer in message.answers):
            raise InvalidReply("the server answered about a template that the relation does not have")
        skipped = enum_name(cloze_facts_pb2.FactResult.Skipped, message.skipped, "SKIPPED_") if message.skipped else None
        answers = tuple(_answer(fact, answer) for answer in message.answers)
        among_all, left_out = among[fact.relation], response.vocabulary_left_out
        found.append(FactResult(fact, answers, skipped, message.object_in_subject, among_all, left_out, scoring, source))
    return found


def _answer(fact: Fact, message: cloze_facts_pb2.FactAnswer) -> FactAnswer:
    objects, primes = cast("tuple[str, ...]", fact.objects), cast("tuple[str, ...]", fact.primes)
    ranked, prior = message.HasField("rank"), message.HasField("prior_rank")
    try:
        prime = primes[message.prime] if message.HasField("prime") else None
        right = objects[message.object] if ranked else None
    except IndexError:
        raise InvalidReply("the server answered about an object or a prime that the fact does not have") from None
    return made(
        FactAnswer,
        template=message.template,
        prime=prime,
        rank=message.rank if ranked else None,
        object=right,
        log_probability=message.log_probability if ranked else None,
        prior_rank=message.prior_rank if prior else None,
        prior_log_probability=message.prior_log_probability if prior else None,
        predictions=tuple(
            made(FactPrediction, object=each.object, log_probability=each.log_probability) for each in message.predictions
        ),
    )
