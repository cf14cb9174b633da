"""Facts: their requests, replies and metrics, written down by hand; files as they are published; the figure."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator
from pathlib import Path

import bertscope
import pytest
from bertscope.questions.facts.answers import read_facts_reply
from bertscope.questions.facts.knowledge import FactAnswers, joined
from bertscope.questions.facts.metrics import wilson
from bertscope.questions.facts.names import NAME_NOUNS, guessed, name_questions
from bertscope.questions.facts.questions import asked_facts, query_facts_request, relations_by_name, with_facts
from bertscope.v1 import cloze_facts_pb2 as facts_pb2
from bertscope_workbench.plots.facts import plot_facts, save_facts

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


def test_p_at_k_and_mrr_of_the_first_template_the_best_and_the_mean() -> None:
    found = answers()
    first, best, mean = (found.scores(name)["capital"] for name in ("first", "best", "mean"))  # type: ignore[arg-type]
    assert (first.template, first.facts, first.ranked_among) == (0, 3, 500)
    assert (first.p_at_1.value, first.p_at_10.value) == pytest.approx((1 / 3, 2 / 3))
    assert first.mrr == pytest.approx((1 + 1 / 2 + 1 / 11) / 3)
    assert (best.template, best.p_at_1.value, best.p_at_10.value, best.mrr) == pytest.approx((1, 2 / 3, 2 / 3, 2 / 3))
    assert mean.template is None
    assert (mean.p_at_1.value, mean.mrr) == pytest.approx((1 / 2, (first.mrr + best.mrr) / 2))
    assert math.isnan(mean.p_at_1.low)
    assert (first.p_at_1.low, first.p_at_1.high) == pytest.approx(wilson(1 / 3, 3)[1:])


def test_macro_averages_are_over_the_relations_of_which_a_fact_was_asked() -> None:
    scores = answers().scores()
    assert (scores.facts, scores.skipped) == (3, {"not_among_candidates": 1})
    assert scores.p_at_1 == scores["capital"].p_at_1.value
    assert math.isnan(scores["born"].p_at_1.value)
    assert math.isnan(scores.macro(lambda each: math.nan))
    with pytest.raises(KeyError):
        scores["other"]


def test_consistency_negation_priming_and_prior() -> None:
    capital = answers().scores()["capital"]
    assert capital.consistency == pytest.approx(2 / 3)  # Italy's two templates differ
    assert capital.consistent_p_at_1 == pytest.approx(1 / 3)
    assert capital.same_if_negated == pytest.approx(2 / 3)  # the negated one goes with the first
    assert (capital.misprimed, capital.primed_p_at_1, capital.unprimed_p_at_1) == pytest.approx((1 / 2, 1 / 2, 1 / 2))
    assert capital.prior_p_at_1 == pytest.approx(1 / 2)
    born = answers().scores()["born"]
    assert all(math.isnan(value) for value in (born.consistency, born.consistent_p_at_1, born.same_if_negated, born.misprimed))


@pytest.mark.parametrize(
    ("hits", "count", "low", "high"), [(0, 10, 0.0, 0.2775), (5, 10, 0.2366, 0.7634), (81, 263, 0.2553, 0.3662)]
)
def test_wilson(hits: int, count: int, low: float, high: float) -> None:
    """The last is the example of Newcombe 1998, method 3."""
    assert wilson(hits / count, count) == pytest.approx((hits / count, low, high), abs=1e-4)


def test_filters_leave_facts_out() -> None:
    found = answers()
    assert found.objects_in_subjects == {1}
    rest = found.without(found.objects_in_subjects)
    assert [result.fact.subject for result in rest] == ["France", "Dante", "Spain"]
    assert rest.scores()["capital"].p_at_1.value == pytest.approx(1 / 2)


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


def test_a_table_has_a_row_for_each_answer_and_each_skipped_fact() -> None:
    frame = answers().to_pandas()
    assert len(frame) == 3 + 6 + 1 + 3
    assert frame.relation.value_counts().to_dict() == {"capital": 12, "born": 1}
    assert frame[frame.relation == "born"].skipped.tolist() == ["not_among_candidates"]
    italy = frame[(frame.subject == "Italy") & (frame.prime == "Milan")]
    assert italy["rank"].tolist() == [5, 1, 1]
    assert italy.answer.tolist() == ["MILAN", "rome", "milan"]
    assert frame.weights_digest.nunique() == 1
    scores = answers().scores().to_pandas()
    assert scores.p_at_1.tolist()[0] == pytest.approx(1 / 3)
    assert "<table" in (answers()._repr_html_() or "") and "<table" in (answers().scores()._repr_html_() or "")


def test_results_are_short_at_a_prompt() -> None:
    found = answers()
    assert len(found) == 4
    assert found[0].answer(1).rank == 1
    shown = (found, found[0], found[0].answers[0], found.scores(), found.scores()["born"])
    assert all(len(repr(each).splitlines()) <= 15 for each in shown)
    with pytest.raises(KeyError):
        found[0].answer(9)


# Requests.


def request(**more: object) -> facts_pb2.QueryFactsRequest:
    given = {
        "model": None,
        "vocabulary": (),
        "scoring": "single_entry",
        "max_pieces": None,
        "top_k": 1,
        "prior": False,
        "interventions": (),
        "reference_texts": (),
    }
    return query_facts_request(**(given | more))  # type: ignore[arg-type]


def test_a_request_has_the_relations_of_its_facts_alone() -> None:
    found = with_facts(request(), RELATIONS, ASKED[2:])
    assert [relation.name for relation in found.relations] == ["born", "capital"]
    assert [fact.relation for fact in found.facts] == [0, 1]
    assert list(found.relations[0].candidates) == ["Rome", "Paris"]
    assert [template.negated for template in found.relations[1].templates] == [False, False, True]


def test_a_fact_of_the_only_relation_needs_no_name() -> None:
    asked = asked_facts(Fact("Dante", "Rome"), relations_by_name(BORN))
    assert [fact.relation for fact in asked.items] == ["born"]
    endless = asked_facts((Fact("x", "y", "born") for _ in iter(int, 1)), RELATIONS)
    assert endless.total is None
    assert next(endless.items).subject == "x"


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: Fact(3, "x"), "subject"),  # type: ignore[arg-type]
        (lambda: Fact("x", [3]), "objects[0]"),  # type: ignore[list-item]
        (lambda: Fact("\ud800", "x"), "subject"),
        (lambda: Relation("r", [3]), "templates[0]"),  # type: ignore[list-item]
        (lambda: Relation("r", "x", candidates=[3]), "candidates[0]"),  # type: ignore[list-item]
        (lambda: Template("x", negated="no"), "negated"),  # type: ignore[arg-type]
        (lambda: relations_by_name([]), "relations"),
        (lambda: relations_by_name([BORN, BORN]), "relations[1]"),
        (lambda: relations_by_name(["x"]), "relations[0]"),  # type: ignore[list-item]
        (lambda: asked_facts([ASKED[0], "x"], RELATIONS), "facts[1]"),  # type: ignore[list-item]
        (lambda: asked_facts([Fact("x", "y")], RELATIONS), "facts[0]"),
        (lambda: request(scoring="best"), "scoring"),
        (lambda: request(max_pieces=0), "max_pieces"),
        (lambda: request(top_k=-1), "top_k"),
        (lambda: answers().scores("last"), "template"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_sent_is_refused_by_its_field(make: object, field: str) -> None:
    with pytest.raises(bertscope.InvalidArgument) as caught:
        make()  # type: ignore[operator]
    assert [violation.field for violation in caught.value.field_violations] == [field]


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_answers_are_read_back_from_their_rows(tmp_path: Path, suffix: str) -> None:
    expected, path = answers(), tmp_path / f"rows{suffix}"

    def query_facts(facts: Iterator[Fact]) -> Iterator[FactResult]:
        for fact, result in zip(facts, expected, strict=True):
            assert fact == result.fact
            yield result

    bertscope.write_items(path, ASKED, query_facts)  # type: ignore[arg-type]  # an iterator will do
    found = bertscope.read_fact_rows(path, RELATIONS.values())
    source = dataclasses.replace(expected.provenance, device="")
    assert found.provenance == source
    assert found.results == tuple(dataclasses.replace(result, provenance=source) for result in expected)
    assert (found.ranked_among, found.vocabulary_left_out, found.scoring) == ({"capital": 500, "born": 0}, 3, "single_entry")
    with pytest.raises(bertscope.InvalidArgument, match="row 1: is no answer about these relations"):
        bertscope.read_fact_rows(path, FactRelation("other", "[X] [Y]"))


def test_replies_that_break_the_contract() -> None:
    few, foreign, unknown = reply(), reply(), reply()
    del few.results[0]
    foreign.results[0].answers[0].object = 9
    unknown.results[0].answers[0].template = 9
    among = reply()
    among.ranked_among.append(3)
    for broken in (few, foreign, unknown, among):
        with pytest.raises(bertscope.InvalidReply):
            read_facts_reply(RELATIONS, ASKED, broken)


# Files.


def test_facts_as_lama_and_pararel_publish_them(tmp_path: Path) -> None:
    path = tmp_path / "P36.jsonl"
    rows = [
        {"sub_label": "France", "obj_label": "Paris", "uuid": "1"},
        {"sub_label": "Dante", "obj_label": "Florence", "predicate_id": "P19", "masked_sentences": ["..."]},
        {"subject": "Italy", "objects": ["Rome", "Roma"], "relation": "capital", "primes": ["Milan"]},
    ]
    path.write_text("\n".join(map(json.dumps, rows)) + "\n\n", encoding="utf-8")
    found = bertscope.read_facts(path)
    assert [(fact.subject, fact.objects, fact.relation, fact.primes) for fact in found] == [
        ("France", ("Paris",), "P36", ()),
        ("Dante", ("Florence",), "P19", ()),
        ("Italy", ("Rome", "Roma"), "capital", ("Milan",)),
    ]
    assert found.lines == [1, 2, 3]
    assert [fact.relation for fact in bertscope.read_facts(path, relation="r", limit=2)] == ["r", "r"]


def test_facts_of_tables(tmp_path: Path) -> None:
    path = tmp_path / "capitals.tsv"
    path.write_text("country\tcapital\nItaly\tRome|Roma\nFrance\tParis\n", encoding="utf-8")
    found = bertscope.read_facts(path, columns={"subject": "country", "object": "capital"})
    assert [(fact.subject, fact.objects, fact.relation) for fact in found] == [
        ("Italy", ("Rome", "Roma"), "capitals"),
        ("France", ("Paris",), "capitals"),
    ]
    path = tmp_path / "some.csv"
    path.write_text('subject,object,relation\n"a, b",c,r\n', encoding="utf-8")
    assert bertscope.read_facts(path)[0].relation == "r"


def test_templates_and_words(tmp_path: Path) -> None:
    lama, pararel, words = tmp_path / "relations.jsonl", tmp_path / "P36.jsonl", tmp_path / "common_vocab_cased.txt"
    lama.write_text('{"relation": "P36", "template": "[X] [Y] ."}\n{"relation": "P19", "template": "[X] in [Y] ."}\n')
    pararel.write_text('{"pattern": "[X] [Y]."}\n{"pattern": "not [X] [Y].", "negated": true}\n{"pattern": "[X] [Y]."}\n')
    words.write_text("Paris\nRome\n\nParis\n")
    assert list(bertscope.read_templates(lama)) == ["P36", "P19"]
    assert bertscope.read_templates(pararel)["P36"].templates == (Template("[X] [Y]."), Template("not [X] [Y].", negated=True))
    assert bertscope.read_words(words) == ["Paris", "Rome"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"sub_label": "x"}', "line 1: object: is missing"),
        ('{"obj_label": "x"}', "line 1: subject: is missing"),
        ('{"sub_label": 3, "obj_label": "x"}', "line 1: subject: must be a string"),
        ("[]", "line 1: is not a JSON object"),
        ("", "has no line to read"),
    ],
)
def test_a_file_with_other_contents_is_refused_by_its_line(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "facts.jsonl"
    path.write_text(text)
    with pytest.raises(bertscope.InvalidArgument, match=words):
        bertscope.read_facts(path)
    path = tmp_path / "templates.jsonl"
    path.write_text('{"relation": "r"}')
    with pytest.raises(bertscope.InvalidArgument, match="line 1: template: is missing"):
        bertscope.read_templates(path)
    (tmp_path / "words.txt").write_text("\n")
    with pytest.raises(bertscope.InvalidArgument, match="has no word"):
        bertscope.read_words(tmp_path / "words.txt")
    with pytest.raises(bertscope.InvalidArgument, match="goes with tables"):
        bertscope.read_facts(tmp_path / "facts.jsonl", columns={"subject": "x"})


# The figure.


def test_the_figure_has_a_row_for_each_relation_that_was_asked(tmp_path: Path) -> None:
    for dark in (False, True):
        (axes,) = plot_facts(answers().scores(), dark=dark).axes
        assert [label.get_text() for label in axes.get_yticklabels()] == ["capital (3)"]
    save_facts(answers().scores("mean"), tmp_path / "facts.svg", title="mine")
    assert "mine" in (tmp_path / "facts.svg").read_text(encoding="utf-8") or (tmp_path / "facts.svg").stat().st_size > 1000
    with pytest.raises(ValueError, match="must end with"):
        save_facts(answers().scores(), tmp_path / "facts.gif")
    with pytest.raises(bertscope.InvalidArgument, match="nothing to draw"):
        plot_facts(answers().without({0, 1, 3}).scores())
