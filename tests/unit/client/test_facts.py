"""Facts: their requests, replies and metrics, written down by hand; files as they are published; the figure."""

import dataclasses
import math
from collections.abc import Iterator
from pathlib import Path

import bertscope
import bertscope_workbench as workbench
import pytest
from bertscope.questions.facts.answers import asked_facts, read_facts_reply, relations_by_name, with_facts
from bertscope.questions.facts.knowledge import FactAnswers, joined
from bertscope.v1 import cloze_facts_pb2 as facts_pb2
from bertscope.v1.cloze_facts_pb2 import QueryFactsRequest
from bertscope.values.requests import request_of
from bertscope_workbench.analyses.names import NAME_NOUNS, guessed, name_questions
from bertscope_workbench.plots.facts import plot_facts

from tests.support.broken_replies import refusals
from tests.support.fake_server import PROVENANCE

Fact, Relation, Template = bertscope.Fact, bertscope.FactRelation, bertscope.FactTemplate
FactRelation, FactResult = bertscope.FactRelation, bertscope.FactResult
CAPITAL = Relation(
    "capital", ["The capital of [X] is [Y].", "[Y], capital of [X].", Template("The capital of [X] is not [Y].", negated=True)]
)
BORN = Relation("born", "[X] was born in [Y].", candidates=["Rome", "Paris"])
RELATIONS = relations_by_name([CAPITAL, BORN])
ASKED = [
    Fact("France", "Paris", "capital"),
    Fact("Italy", ["Roma", "Rome"], "capital", primes=["Milan"]),
    Fact("Dante", "Florence", "born"),
    Fact("Spain", "Madrid", "capital"),
]


def answer(template: int, rank: int | None, top: str = "x", **more: object) -> facts_pb2.FactAnswer:
    ranked = {} if rank is None else {"rank": rank, "object": 0, "log_probability": -float(rank)}
    predictions = [facts_pb2.FactPrediction(object=top, log_probability=-0.5)] if top else []
    return facts_pb2.FactAnswer(template=template, predictions=predictions, **(ranked | more))


def reply() -> facts_pb2.QueryFactsResponse:
    kinds = facts_pb2.FactResult
    results = [
        kinds(
            answers=[
                answer(0, 1, "paris", prior_rank=1, prior_log_probability=-3.0),
                answer(1, 1, "paris"),
                answer(2, 1, "paris"),
            ]
        ),
        kinds(
            answers=[
                answer(0, 2, "milan", prior_rank=7),
                answer(1, 1, "rome", object=1),
                answer(2, 40, "berlin"),
                answer(0, 5, "MILAN", prime=0),
                answer(1, 1, "rome", prime=0),
                answer(2, 1, "milan", prime=0),
            ],
            object_in_subject=True,
        ),
        kinds(skipped=kinds.SKIPPED_NOT_AMONG_CANDIDATES),
        kinds(answers=[answer(0, 11, "lisbon"), answer(1, None, "lisbon"), answer(2, 3, "lisbon")]),
    ]
    return facts_pb2.QueryFactsResponse(
        results=results,
        ranked_among=[500, 0],
        vocabulary_left_out=3,
        scoring=facts_pb2.OBJECT_SCORING_SINGLE_ENTRY,
        provenance=PROVENANCE,
    )


def answers() -> FactAnswers:
    return joined(read_facts_reply(RELATIONS, ASKED, reply()), RELATIONS)


def test_the_person_name_filter_asks_about_each_part_once() -> None:
    asked = [Fact("Jean Jean Marais", "French", "P103"), Fact("France", "Paris", "P36"), Fact("Dante", ["Rome"], "P19")]
    numbers, questions, relations = name_questions(asked, NAME_NOUNS)
    assert numbers == [0, 0, 2]
    assert [(each.subject, each.relation) for each in questions] == [
        ("Jean", "language"),
        ("Marais", "language"),
        ("Dante", "city"),
    ]
    assert [each.name for each in relations] == ["language", "city"]
    texts = facts_pb2.QueryFactsResponse(
        results=[facts_pb2.FactResult(answers=[answer(0, rank)]) for rank in (4, 3, 9)],
        ranked_among=[1, 1],
        provenance=PROVENANCE,
    )
    results = read_facts_reply(relations_by_name(relations), questions, texts)
    assert guessed(numbers, results) == {0}


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_answers_are_read_back_from_their_rows(tmp_path: Path, suffix: str) -> None:
    expected, path = answers(), tmp_path / f"rows{suffix}"

    def query_facts(facts: Iterator[Fact]) -> Iterator[FactResult]:
        for fact, result in zip(facts, expected, strict=True):
            assert fact == result.fact
            yield result

    workbench.write_items(path, ASKED, query_facts)  # type: ignore[arg-type]  # an iterator will do
    found = workbench.read_fact_rows(path, RELATIONS.values())
    source = dataclasses.replace(expected.provenance, device="")
    assert found.provenance == source
    assert found.results == tuple(dataclasses.replace(result, provenance=source) for result in expected)
    assert (found.ranked_among, found.vocabulary_left_out, found.scoring) == ({"capital": 500, "born": 0}, 3, "single_entry")
    with pytest.raises(bertscope.InvalidArgument, match="row 1: is no answer about these relations"):
        workbench.read_fact_rows(path, FactRelation("other", "[X] [Y]"))


def test_scores(stored) -> None:
    """Of three facts of one relation, one of which has other names and a prime: each number can be worked out by hand."""
    found = answers()
    rest = found.without(found.objects_in_subjects)
    stored(
        answers=found,
        shown="\n".join(map(repr, (found, found[0], found[0].answers[0], found.scores(), found.scores()["born"]))),
        first=found.scores(),
        best=found.scores("best")["capital"],
        mean=found.scores("mean")["capital"],
        macro=[found.scores().p_at_1, found.scores().macro(lambda each: math.nan)],
        objects_in_subjects=found.objects_in_subjects,
        without=[[result.fact.subject for result in rest], rest.scores()["capital"].p_at_1],
        figure=plot_facts(found.scores()),
        dark=plot_facts(found.scores("mean"), dark=True, title="mine"),
        refused=[
            lambda: found.scores()["other"],
            lambda: found[0].answer(9),
            lambda: found.scores("last"),  # type: ignore[arg-type]
            lambda: plot_facts(found.without({0, 1, 3}).scores()),
        ],
        broken=refusals(lambda messages: read_facts_reply(RELATIONS, ASKED, *messages), reply()),
    )


def test_a_request_has_the_relations_of_its_facts_alone(stored) -> None:
    usual = dict.fromkeys(("vocabulary", "interventions", "reference_texts"), ())
    usual |= {"scoring": "single_entry", "top_k": 1, "prior": False}
    stored(
        request=with_facts(request_of(QueryFactsRequest, model=None, max_pieces=None, **usual), RELATIONS, ASKED[2:]),  # type: ignore[arg-type]
        refused=[
            lambda: Fact("x", [3]),  # type: ignore[list-item]
            lambda: Fact("\ud800", "x"),
            lambda: Relation("r", [3]),  # type: ignore[list-item]
            lambda: Relation("r", "x", candidates=[3]),  # type: ignore[list-item]
            lambda: Template("x", negated="no"),  # type: ignore[arg-type]
            lambda: relations_by_name([]),
            lambda: relations_by_name([BORN, BORN]),
            lambda: relations_by_name(["x"]),  # type: ignore[list-item]
            lambda: asked_facts([ASKED[0], "x"], RELATIONS),  # type: ignore[list-item]
            lambda: asked_facts([Fact("x", "y")], RELATIONS),
        ],
    )


FILES = {
    "P36.jsonl": (
        '{"sub_label": "France", "obj_label": "Paris", "uuid": "1"}\n'
        '{"sub_label": "Dante", "obj_label": "Florence", "predicate_id": "P19", "masked_sentences": ["..."]}\n'
        '{"subject": "Italy", "objects": ["Rome", "Roma"], "relation": "capital", "primes": ["Milan"]}\n\n'
    ),
    "capitals.tsv": "country\tcapital\nItaly\tRome|Roma\nFrance\tParis\n",
    "some.csv": 'subject,object,relation\n"a, b",c,r\n',
    "relations.jsonl": '{"relation": "P36", "template": "[X] [Y] ."}\n{"relation": "P19", "template": "[X] in [Y] ."}\n',
    "P37.jsonl": '{"pattern": "[X] [Y]."}\n{"pattern": "not [X] [Y].", "negated": true}\n{"pattern": "[X] [Y]."}\n',
    "common_vocab_cased.txt": "Paris\nRome\n\nParis\n",
    "1.jsonl": '{"sub_label": "x"}',
    "2.jsonl": '{"obj_label": "x"}',
    "3.jsonl": '{"sub_label": 3, "obj_label": "x"}',
    "4.jsonl": "[]",
    "5.jsonl": "",
    "templates.jsonl": '{"relation": "r"}',
    "words.txt": "\n",
}


def test_files_as_they_are_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stored) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        Path(name).write_text(text, encoding="utf-8")
    found = workbench.read_facts("P36.jsonl")
    assert found.lines == [1, 2, 3]
    stored(
        facts=list(found),
        of_one_relation=list(workbench.read_facts("P36.jsonl", relation="r", limit=2)),
        table=list(workbench.read_facts("capitals.tsv", columns={"subject": "country", "object": "capital"})),
        another_table=list(workbench.read_facts("some.csv")),
        templates=[workbench.read_templates("relations.jsonl"), workbench.read_templates("P37.jsonl")],
        words=workbench.read_words("common_vocab_cased.txt"),
        refused=[
            *(lambda number=number: workbench.read_facts(f"{number}.jsonl") for number in range(1, 6)),
            lambda: workbench.read_templates("templates.jsonl"),
            lambda: workbench.read_words("words.txt"),
            lambda: workbench.read_facts("P36.jsonl", columns={"subject": "x"}),
        ],
    )
