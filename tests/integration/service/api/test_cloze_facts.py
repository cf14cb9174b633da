"""QueryFacts through gRPC: what it counts, what it refuses, and what many calls give together."""

from typing import Any

import pytest
from bertscope.v1 import cloze_facts_pb2 as facts

from tests.support.calls import call, refusal
from tests.support.harness import Host

CAPITAL: dict[str, Any] = {
    "name": "capital",
    "templates": [{"text": "The capital of [X] is [Y]."}, {"text": "The capital of [X] is not [Y].", "negated": True}],
}
BORN: dict[str, Any] = {"name": "born", "templates": [{"text": "[X] was born in [Y]."}]}
FACTS: list[dict[str, Any]] = [
    {"relation": 0, "subject": "France", "objects": ["the"]},
    {"relation": 1, "subject": "the House", "objects": ["unplayable songs", "house"], "primes": ["cat"]},
    {"relation": 0, "subject": "Spain", "objects": ["unplayable songs"]},
    {"relation": 1, "subject": "Dante", "objects": ["cat", "dog"]},
    {"relation": 0, "subject": "the " * 80, "objects": ["the"]},
    {"relation": 0, "subject": "Rome", "objects": ["dog"]},
]
Skipped = facts.FactResult


def query(host: Host, **fields: Any) -> Any:
    return call(host, "QueryFacts", **{"relations": [CAPITAL, BORN], "facts": FACTS} | fields)


def of_dante(*objects: str) -> dict[str, Any]:
    return {"subject": "Dante", "objects": objects}


@pytest.mark.parametrize("model", ["bert", "roberta"])
def test_counts_are_those_of_the_answers(host: Host, model: str) -> None:
    reply = query(host, model=f"models/{model}", facts=FACTS[:1] if model == "roberta" else FACTS)
    for count in reply.counts:
        ranks = [
            answer.rank
            for fact, result in zip(FACTS, reply.results, strict=False)
            if fact["relation"] == count.relation
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
    results = query(host, prior=True).results
    assert [(len(result.answers), result.skipped, result.object_in_subject) for result in results] == [
        (2, Skipped.SKIPPED_UNSPECIFIED, False),
        (2, Skipped.SKIPPED_UNSPECIFIED, True),
        (0, Skipped.SKIPPED_SEVERAL_PIECES, False),
        (1, Skipped.SKIPPED_UNSPECIFIED, False),
        (0, Skipped.SKIPPED_TOO_LONG, True),
        (2, Skipped.SKIPPED_UNSPECIFIED, False),
    ]
    plain, primed = results[1].answers
    assert (plain.HasField("prime"), primed.HasField("prime")) == (False, True)
    assert (plain.object, primed.object) == (1, 1)
    assert (plain.HasField("prior_rank"), primed.HasField("prior_rank")) == (True, False)
    assert all(len(answer.predictions) == 1 for result in results for answer in result.answers)


def test_a_vocabulary_is_ranked_among_and_its_other_words_counted(host: Host) -> None:
    words = ["the", "cat", "dog", "house", "unplayable songs", "Cat"]
    reply = query(host, vocabulary=words, top_k=3)
    assert list(reply.ranked_among) == [4, 4]
    assert reply.vocabulary_left_out == 1
    for answer in (answer for result in reply.results for answer in result.answers):
        assert answer.rank <= 4
        assert {prediction.object for prediction in answer.predictions} <= set(words)
    (apart,) = query(host, vocabulary=["dog"], facts=FACTS[:1]).results
    assert apart.skipped == Skipped.SKIPPED_NOT_AMONG_CANDIDATES


def test_typed_candidates_of_several_pieces(host: Host) -> None:
    candidates = ["the cat", "unplayable songs", "dog", "🦖"]
    asked = {"relations": [BORN | {"candidates": candidates}], "facts": [of_dante(word) for word in candidates]}
    reply = query(host, **asked, scoring=facts.OBJECT_SCORING_CANDIDATES, top_k=10)
    ranks = [result.answers[0].rank for result in reply.results[:3]]
    assert sorted(ranks) == [1, 2, 3]
    named = [prediction.object for prediction in reply.results[0].answers[0].predictions]
    assert [named.index(word) + 1 for word in candidates[:3]] == ranks
    assert reply.results[3].skipped == Skipped.SKIPPED_NOT_WRITABLE
    assert list(reply.ranked_among) == [3]


@pytest.mark.parametrize("scoring", [facts.OBJECT_SCORING_LEFT_TO_RIGHT, facts.OBJECT_SCORING_CONFIDENCE_FIRST])
def test_decoded_objects_come_with_their_rank_where_decoding_gave_them(host: Host, scoring: Any) -> None:
    """What it gives at first is then asked for as the right object."""
    asked = {"relations": [BORN], "scoring": scoring, "max_pieces": 3, "top_k": 10}
    (found,) = query(host, facts=[of_dante("cat")], **asked).results[0].answers
    logs = [prediction.log_probability for prediction in found.predictions]
    assert (len(logs), logs) == (3, sorted(logs, reverse=True))
    assert not found.HasField("rank") or found.predictions[found.rank - 1].object == "cat"
    right = [of_dante("cat", prediction.object) for prediction in found.predictions]
    reply = query(host, facts=[*right, of_dante("unplayable song recorded now")], **asked)
    assert reply.results[3].skipped == Skipped.SKIPPED_NOT_WRITABLE
    known = [(place, result.answers[0]) for place, result in enumerate(reply.results[:3]) if result.answers[0].HasField("rank")]
    assert known
    for place, answer in known:
        assert answer.rank <= place + 1
        assert answer.log_probability == pytest.approx(logs[answer.rank - 1], abs=1e-5)
    (count,) = reply.counts
    assert (count.facts, count.hits_at_10) == (3, len(known))
    assert list(reply.ranked_among) == [3]


def test_the_models_own_mask_is_refused_too(host: Host) -> None:
    asked = {"relations": [CAPITAL], "facts": [{"subject": "a <mask>", "objects": ["the"]}]}
    assert refusal(host, "QueryFacts", model="models/roberta", **asked).fields == ["facts[0].subject"]
    assert query(host, **asked).results[0].answers  # not a mask of this model
