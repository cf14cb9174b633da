"""Declared studies on a real server: tiny files in the published formats, figures, the page."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from bertscope import Client
from bertscope.questions.facts.questions import Fact, FactRelation, FactTemplate
from bertscope.v1 import cloze_pb2, model_pb2
from bertscope_workbench.command.app import run
from bertscope_workbench.studies.declared import run_study
from bertscope_workbench.studies.declared_page import study_report
from bertscope_workbench.studies.easy_facts import EASY, HARD
from bertscope_workbench.studies.readers import find_study, read_questions
from google.rpc import code_pb2

from tests.support.fake_server import FakeServer
from tests.support.harness import Host

DEFINITION = """
title = "Mine"
paper = "None"

[[part]]
name = "forms"
title = "Forms"
asked = "Which form?"
definition = "The likelier one."
reader = "table"
files = ["forms.csv"]
ask = "choice"

[[part]]
name = "ranks"
title = "Ranks"
asked = "Which rank?"
definition = "That of the answer."
reader = "table"
files = ["ranks.csv"]
ask = "blank"
metrics = ["p@1", "p@500", "mrr"]

[[part]]
name = "pairs"
title = "Pairs"
asked = "Which sentence?"
definition = "The likelier one."
reader = "table"
files = ["pairs.jsonl"]
ask = "pair"
groups = ["kind"]

[[part]]
name = "facts"
title = "Facts"
asked = "Which object?"
definition = "Its rank."
reader = "facts"
files = ["facts.csv"]
relations = {facts = ["[X] is [Y] .", "the [X] is [Y] ."]}
negated = {facts = "[X] is not [Y] ."}
negate = true
ask = "fact"
metrics = ["p@500", "mrr", "consistency", "same_if_negated"]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    long = "of " * 200
    rows = ["the [MASK] .,of,the", "[MASK] it is .,a,the", f"{long}[MASK],of,the", "the [MASK] .,of,antidisestablishment"]
    (tmp_path / "forms.csv").write_text("text,right,wrong\n" + "\n".join(rows) + "\n", encoding="utf-8")
    (tmp_path / "ranks.csv").write_text("text,answer\nthe [MASK] .,of|the\na [MASK] of it .,the\n", encoding="utf-8")
    (tmp_path / "facts.csv").write_text("subject,object\nit,of|the\nthe,a\nof,antidisestablishment\n", encoding="utf-8")
    lines = [
        '{"good": "the cat is here .", "bad": "is the here cat .", "kind": "order"}',
        '{"good": "the cat", "bad": "the cat", "kind": "same"}',
    ]
    (tmp_path / "pairs.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (tmp_path / "mine.toml").write_text(DEFINITION, encoding="utf-8")
    return tmp_path


def study(capsys: pytest.CaptureFixture[str], host: Host, *arguments: Any) -> tuple[int, str, str]:
    code = run(["study", *map(str, arguments), "--target", host.target])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_figures_equal_those_of_single_calls(host: Host, folder: Path) -> None:
    definition = find_study(str(folder / "mine.toml"))
    with Client(host.target) as client:
        found = run_study(client, definition, read_questions(definition, folder), model="bert", baseline="roberta")
        expected = []
        for text, right, wrong in (("the [MASK] .", "of", "the"), ("[MASK] it is .", "a", "the")):
            (answer,) = client.fill_mask(text, model="bert", candidates=[right, wrong])
            expected.append(answer.masks[0].predictions[0].token == right)
        (first,) = client.fill_mask("the [MASK] .", model="bert", candidates=["of", "the"])
        (second,) = client.fill_mask("a [MASK] of it .", model="bert", candidates=["the"])
        relation = FactRelation("facts", ["[X] is [Y] .", "the [X] is [Y] .", FactTemplate("[X] is not [Y] .", negated=True)])
        known = client.query_facts([Fact("it", ["of", "the"]), Fact("the", "a")], relation, model="bert").scores()["facts"]
        compared = client.compare_texts([("the cat is here .", "is the here cat .")], model="bert")
    forms, ranks, pairs, facts = found.parts
    assert found.measure("facts", "mrr").value == pytest.approx(known.mrr)
    assert found.measure("facts", "consistency").value == pytest.approx(known.consistency)
    assert found.measure("facts", "same_if_negated").value == pytest.approx(known.same_if_negated)
    assert facts.answers[0].outcomes[2].skipped == "no object is a single entry of the vocabulary"
    assert [outcome.right for outcome in forms.answers[0].outcomes[:2]] == expected
    reasons = [outcome.skipped for outcome in forms.answers[0].outcomes[2:]]
    assert "the text" in reasons[0]
    assert reasons[1] == "a word is not a single entry of the vocabulary"
    best = [min(each.rank or 0 for each in answer.masks[0].predictions) for answer in (first, second)]
    assert [outcome.rank for outcome in ranks.answers[0].outcomes] == best
    assert found.measure("ranks", "mrr").value == pytest.approx(sum(1 / rank for rank in best) / 2)
    assert [outcome.tied for outcome in pairs.answers[0].outcomes] == [False, True]
    assert pairs.answers[0].outcomes[0].right == (compared.sets[0].outcome == "right")
    assert found.measure("pairs", "accuracy", "same", 1).items == 1
    assert [(each.group, each.metric) for each in pairs.differences[:2]] == [("", "accuracy"), ("order", "accuracy")]


def test_facts_are_primed_ranked_among_a_vocabulary_and_divided_by_how_easy_they_are(host: Host, folder: Path) -> None:
    text = DEFINITION.replace('"same_if_negated"]', '"same_if_negated", "misprimed", "unprimed_p@1"]')
    (folder / "mine.toml").write_text(
        text.replace("negate = true", "negate = true\nprime = true\nuhn = true"), encoding="utf-8"
    )
    (folder / "words.txt").write_text("of\nthe\na\nis\n", encoding="utf-8")
    (folder / "facts.csv").write_text("subject,object\nit,of|the\nthe,a\nof,a\na,a\n", encoding="utf-8")
    definition = find_study(str(folder / "mine.toml"))
    questions = read_questions(definition, folder, only=["ranks", "facts"], vocabulary=folder / "words.txt")
    with Client(host.target) as client:
        found = run_study(client, definition, questions, model="bert", baseline="roberta")
        (first,) = client.query_facts(
            Fact("the", ["of", "the"]), FactRelation("r", "[X] [Y] ."), model="bert", vocabulary=["of", "the", "a", "is"]
        )
    ranks, facts = found.parts
    assert ranks.answers[0].outcomes[0].rank == first.answers[0].rank
    assert all(0 < outcome.rank <= 4 for outcome in facts.answers[0].outcomes)
    assert {measure.group for measure in facts.answers[1].measures} == {"", "facts", EASY, HARD}
    assert found.measure("facts", "p@500", EASY).items == 1
    assert 0 <= found.measure("facts", "misprimed").value <= 1
    report = study_report(found, folder)
    assert "ranks among the 4 words of words.txt" in report.sections[0].parts[0].caption
    assert report.sections[0].commands[0].endswith(f"--vocabulary {folder / 'words.txt'}")


def test_the_command_prints_a_table_and_writes_a_page(host: Host, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = folder / "page.html"
    name = folder / "mine.toml"
    code, out, err = study(capsys, host, name, "--data", folder, "--model", "bert", "--output", page, "--dark")
    assert (code, err, out.splitlines()[-1]) == (0, "", f"wrote {page}")
    assert "bert: no published figure for these weights" in out
    assert "1 skipped: a word is not a single entry of the vocabulary" in out
    text = page.read_text(encoding="utf-8")
    assert text.count("<img") == 4
    assert "http" not in text.replace("http-equiv", "")


def test_a_study_that_ships_needs_no_data(host: Host, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = study(capsys, host, "capitals", "--limit", "8", "--only", "capital")
    assert (code, err) == (0, "")
    assert "8 skipped" in out or "items" in out


def test_a_model_without_a_head_is_one_line(host: Host, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = study(capsys, host, "capitals", "--model", "headless")
    assert (code, err.count("\n"), "has no masked-LM head" in err) == (1, 1, True), err


def test_a_model_that_still_loads_is_not_taken_for_one_without_a_head(
    server: FakeServer, abort: Callable[..., Callable[[grpc.ServicerContext], None]], capsys: pytest.CaptureFixture[str]
) -> None:
    def judge(request: object, context: grpc.ServicerContext) -> None:
        if isinstance(request, cloze_pb2.FillMaskRequest):
            abort(code_pb2.FAILED_PRECONDITION, "models/fake still loads")(context)

    server.judge = judge
    server.models["models/fake"] = {"state": model_pb2.Model.STATE_LOADING}
    assert run(["study", "capitals", "--target", server.target]) == 1
    assert capsys.readouterr().err == "bertscope: models/fake still loads\n"
