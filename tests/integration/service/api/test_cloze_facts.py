"""QueryFacts through gRPC: what it counts, what it refuses, and what many calls give together."""

from typing import Any

import grpc
import pytest
from bertscope.v1 import cloze_facts_pb2 as facts
from bertscope.v1 import common_pb2

from tests.support.harness import CALL_SECONDS, Host, refused

CAPITAL = facts.FactRelation(
    name="capital",
    templates=[
        facts.FactTemplate(text="The capital of [X] is [Y]."),
        facts.FactTemplate(text="The capital of [X] is not [Y].", negated=True),
    ],
)
BORN = facts.FactRelation(name="born", templates=[facts.FactTemplate(text="[X] was born in [Y].")])
FACTS = [
    facts.Fact(relation=0, subject="France", objects=["the"]),
    facts.Fact(relation=1, subject="the House", objects=["unplayable songs", "house"], primes=["cat"]),
    facts.Fact(relation=0, subject="Spain", objects=["unplayable songs"]),
    facts.Fact(relation=1, subject="Dante", objects=["cat", "dog"]),
    facts.Fact(relation=0, subject="the " * 80, objects=["the"]),
    facts.Fact(relation=0, subject="Rome", objects=["dog"]),
]
INVALID = grpc.StatusCode.INVALID_ARGUMENT


def query(host: Host, **fields: Any) -> facts.QueryFactsResponse:
    fields = {"relations": [CAPITAL, BORN], "facts": FACTS} | fields
    reply = host.cloze.QueryFacts(facts.QueryFactsRequest(**fields), timeout=CALL_SECONDS)
    assert isinstance(reply, facts.QueryFactsResponse)
    return reply


@pytest.mark.parametrize("model", ["bert", "roberta"])
def test_counts_are_those_of_the_answers(host: Host, model: str) -> None:
    reply = query(host, model=f"models/{model}", facts=FACTS[:1] if model == "roberta" else FACTS)
    for count in reply.counts:
        ranks = [
            answer.rank
            for fact, result in zip(FACTS, reply.results, strict=False)
            if fact.relation == count.relation
            for answer in result.answers
            if answer.template == count.template and not answer.HasField("prime")
        ]
        assert (count.facts, count.hits_at_1) == (len(ranks), ranks.count(1))
        assert count.hits_at_10 == sum(rank <= 10 for rank in ranks)
        assert count.reciprocal_rank_sum == pytest.approx(sum(1 / rank for rank in ranks))
    assert [(count.relation, count.template) for count in reply.counts] == [(0, 0), (0, 1), (1, 0)]
    assert reply.provenance.model == f"models/{model}"
    assert reply.scoring == facts.OBJECT_SCORING_SINGLE_ENTRY


def test_each_fact_is_answered_in_each_template_or_skipped_with_the_reason(host: Host) -> None:
    reply = query(host, prior=True)
    assert [len(result.answers) for result in reply.results] == [2, 2, 0, 1, 0, 2]
    kinds = facts.FactResult
    assert [result.skipped for result in reply.results] == [
        *(kinds.SKIPPED_UNSPECIFIED, kinds.SKIPPED_UNSPECIFIED, kinds.SKIPPED_SEVERAL_PIECES),
        *(kinds.SKIPPED_UNSPECIFIED, kinds.SKIPPED_TOO_LONG, kinds.SKIPPED_UNSPECIFIED),
    ]
    assert [result.object_in_subject for result in reply.results] == [False, True, False, False, True, False]
    plain, primed = reply.results[1].answers
    assert (plain.HasField("prime"), primed.HasField("prime")) == (False, True)
    assert (plain.object, primed.object) == (1, 1)
    assert (plain.HasField("prior_rank"), primed.HasField("prior_rank")) == (True, False)
    assert all(len(answer.predictions) == 1 for result in reply.results for answer in result.answers)


def test_a_vocabulary_is_ranked_among_and_its_other_words_counted(host: Host) -> None:
    words = ["the", "cat", "dog", "house", "unplayable songs", "Cat"]
    reply = query(host, vocabulary=words, top_k=3)
    assert list(reply.ranked_among) == [4, 4]
    assert reply.vocabulary_left_out == 1
    for result in reply.results:
        for answer in result.answers:
            assert answer.rank <= 4
            assert {prediction.object for prediction in answer.predictions} <= set(words)
    (apart,) = query(host, vocabulary=["dog"], facts=FACTS[:1]).results
    assert apart.skipped == facts.FactResult.SKIPPED_NOT_AMONG_CANDIDATES


def test_typed_candidates_of_several_pieces(host: Host) -> None:
    typed = facts.FactRelation(name="born", templates=BORN.templates, candidates=["the cat", "unplayable songs", "dog", "🦖"])
    asked = [facts.Fact(subject="Dante", objects=[word]) for word in typed.candidates]
    reply = query(host, relations=[typed], facts=asked, scoring=facts.OBJECT_SCORING_CANDIDATES, top_k=10)
    ranks = [result.answers[0].rank for result in reply.results[:3]]
    assert sorted(ranks) == [1, 2, 3]
    named = [prediction.object for prediction in reply.results[0].answers[0].predictions]
    assert [named.index(word) + 1 for word in typed.candidates[:3]] == ranks
    assert reply.results[3].skipped == facts.FactResult.SKIPPED_NOT_WRITABLE
    assert list(reply.ranked_among) == [3]


def test_interventions_change_the_answers(host: Host) -> None:
    zero = common_pb2.HeadIntervention(layer=1, mode=common_pb2.HeadIntervention.MODE_ZERO)
    logs = [
        [a.log_probability for r in reply.results for a in r.answers]
        for reply in (query(host), query(host, interventions=[zero]))
    ]
    assert logs[0] != pytest.approx(logs[1], abs=1e-4)


@pytest.mark.parametrize("scoring", [facts.OBJECT_SCORING_LEFT_TO_RIGHT, facts.OBJECT_SCORING_CONFIDENCE_FIRST])
def test_decoded_objects_come_with_their_rank_where_decoding_gave_them(host: Host, scoring: Any) -> None:
    """What it gives at first is then asked for as the right object."""
    asked = {"relations": [BORN], "scoring": scoring, "max_pieces": 3, "top_k": 10}
    (found,) = query(host, facts=[facts.Fact(subject="Dante", objects=["cat"])], **asked).results[0].answers
    logs = [prediction.log_probability for prediction in found.predictions]
    assert (len(logs), logs) == (3, sorted(logs, reverse=True))
    assert not found.HasField("rank") or found.predictions[found.rank - 1].object == "cat"
    right = [facts.Fact(subject="Dante", objects=["cat", prediction.object]) for prediction in found.predictions]
    reply = query(host, facts=[*right, facts.Fact(subject="Dante", objects=["unplayable song recorded now"])], **asked)
    assert reply.results[3].skipped == facts.FactResult.SKIPPED_NOT_WRITABLE
    known = [(place, result.answers[0]) for place, result in enumerate(reply.results[:3]) if result.answers[0].HasField("rank")]
    assert known
    for place, answer in known:
        assert answer.rank <= place + 1
        assert answer.log_probability == pytest.approx(logs[answer.rank - 1], abs=1e-5)
    (count,) = reply.counts
    assert (count.facts, count.hits_at_10) == (3, len(known))
    assert list(reply.ranked_among) == [3]


def relation(**fields: Any) -> facts.FactRelation:
    return facts.FactRelation(**{"name": "r", "templates": CAPITAL.templates} | fields)


def template(text: str) -> facts.FactTemplate:
    return facts.FactTemplate(text=text)


def fact(**fields: Any) -> facts.Fact:
    return facts.Fact(**{"subject": "France", "objects": ["the"]} | fields)


# field, words of the message, fields of the request
def test_predictions_are_bounded(host: Host) -> None:
    templates = [template(f"{number} [X] [Y]") for number in range(100)]
    with refused(INVALID) as failures:
        query(host, relations=[relation(templates=templates)], facts=[fact()] * 60, top_k=100)
    assert (failures[0].fields, failures[0].info.reason) == (["facts"], "TOO_MANY_PREDICTIONS")


def test_the_models_own_mask_is_refused_too(host: Host) -> None:
    with refused(INVALID) as failures:
        query(host, model="models/roberta", facts=[fact(subject="a <mask>")])
    assert failures[0].fields == ["facts[0].subject"]
    assert query(host, facts=[fact(subject="a <mask>")]).results[0].answers  # not a mask of this model
