"""`query_facts`, `guess_by_name` and `bertscope facts`, against a real server."""

import json
from pathlib import Path
from typing import Any

import bertscope
import bertscope_workbench as workbench
import pandas
import pytest

from tests.support.harness import Host

CAPITAL = bertscope.FactRelation(
    "capital",
    ["The capital of [X] is [Y].", "[X] has the capital [Y].", bertscope.FactTemplate("It is not [Y] of [X].", negated=True)],
)
BORN = bertscope.FactRelation("born", "[X] was born in [Y].")
FACTS = [
    bertscope.Fact(
        f"{word} {number}", ["the", "cat"] if number % 3 else "unplayable songs", "capital" if number % 2 else "born"
    )
    for number, word in enumerate(["France", "Rome", "the house", "the old man"] * 50)
]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Facts of two relations, templates and a vocabulary."""
    rows = [{"sub_label": fact.subject, "obj_label": fact.objects[0]} for fact in FACTS[:20]]
    (tmp_path / "P36.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "P103.jsonl").write_text(json.dumps({"sub_label": "Jean Marais", "obj_label": "the"}))
    templates = [
        {"relation": "P36", "template": "The capital of [X] is [Y] ."},
        {"relation": "P103", "template": "[X] speaks [Y] ."},
    ]
    (tmp_path / "relations.jsonl").write_text("\n".join(map(json.dumps, templates)))
    (tmp_path / "words.txt").write_text("the\ncat\nunplayable songs\n")
    (tmp_path / "capitals.tsv").write_text("country\tcapital\nFrance\tcat\nItaly\tthe\n")
    return tmp_path


def test_a_fact_that_the_server_refuses_is_named_by_its_index_in_the_whole(host: Host) -> None:
    asked = [*FACTS, bertscope.Fact("a [MASK]", "the", "born")]
    with bertscope.Client(host.target) as client, pytest.raises(bertscope.InvalidArgument) as caught:
        client.query_facts(iter(asked), [CAPITAL, BORN], model="bert")
    assert caught.value.field_violations[0].field == "facts[200].subject"
    with bertscope.Client(host.target) as client, pytest.raises(bertscope.InvalidArgument, match="facts: is empty"):
        client.query_facts([], CAPITAL, model="bert")


def test_no_fact_of_a_persons_relation_needs_no_call(host: Host) -> None:
    with bertscope.Client("127.0.0.1:1") as client:
        assert workbench.guess_by_name(client, [bertscope.Fact("France", "Paris", "P36")]) == frozenset()


def test_a_table_by_relation(host: Host, files: Path, run_at: Any) -> None:
    out = files / "answers.csv"
    paths = [str(files / "P36.jsonl"), str(files / "P103.jsonl")]
    code, shown, error = run_at(
        *(host.target, "facts", *paths, "--templates", str(files / "relations.jsonl"), "--model", "bert"),
        *("--vocabulary", str(files / "words.txt"), "--prior", "--output", str(out), "--plot", str(files / "p.png"), "--dark"),
    )
    assert (code, error) == (0, "")
    assert all(word in shown for word in ("P36", "P103", "P@1", "P@10", "no subject", "mean over relations"))
    assert "skipped: 7 facts: no right object is a single entry of the vocabulary" in shown
    assert "left out of the given vocabulary: 1 word" in shown
    table = pandas.read_csv(out)
    assert len(table) == 21
    assert (files / "p.png").stat().st_size > 1000


def test_rows_give_the_same_table(host: Host, files: Path, run_at: Any) -> None:
    paths = [str(files / "P36.jsonl"), str(files / "P103.jsonl")]
    words = (host.target, "facts", *paths, "--templates", str(files / "relations.jsonl"), "--model", "bert", "--prior")
    code, shown, _ = run_at(*words)
    assert code == 0
    rows = str(files / "rows.jsonl")
    assert run_at(*words, "--rows", rows) == (0, f"{shown}wrote {rows}: 21 rows\n", "")
    assert run_at(*words, "--rows", rows, "--resume") == (0, f"{shown}wrote {rows}: 21 rows, 21 of them before\n", "")
    with (files / "P103.jsonl").open("a") as file:
        file.write('\n{"sub_label": "a [MASK]", "obj_label": "the"}\n{broken\n')
    code, _, error = run_at(*words, "--rows", rows, "--resume")
    assert code == 1 and f"{paths[1]}, line 3: is not JSON" in error
    code, shown, error = run_at(*words, "--rows", rows, "--resume", "--skip-broken")
    assert code == 0 and shown.endswith(f"wrote {rows}: 21 rows, 21 of them before; left out 2 items\n")
    assert f"{paths[1]}, line 2: " in error and f"{paths[1]}, line 3: is not JSON" in error
    Path(paths[1]).write_text(Path(paths[1]).read_text().replace("{broken", ""))
    code, _, error = run_at(*words, "--rows", rows, "--resume")
    assert (code, error) == (1, f"bertscope: {paths[1]}, line 2: subject has a mask; a question has one mask, for [Y]\n")


def test_the_whole_as_json(host: Host, files: Path, run_at: Any) -> None:
    code, shown, _ = run_at(
        *(host.target, "facts", str(files / "capitals.tsv"), "--columns", "subject=country,object=capital", "--model", "bert"),
        *(
            "--template",
            "The capital of [X] is [Y].",
            "--template",
            "[X] has [Y].",
            "--negated",
            "It is not [Y] of [X].",
            "--json",
        ),
        *("--candidates", "golds", "--scoring", "candidates", "--by", "best", "--relation", "capital", "--top-k", "2"),
    )
    assert code == 0
    found = json.loads(shown)
    assert (found["facts"], found["scoring"], found["template"]) == (2, "candidates", "best")
    (capital,) = found["relations"]
    assert (capital["relation"], capital["ranked_among"]) == ("capital", 2)
    assert 0 <= capital["consistency"] <= 1
    assert capital["misprimed"] is None
    assert found["provenance"]["model"] == "models/bert"


def test_easy_facts_are_left_out_and_counted(host: Host, files: Path, run_at: Any) -> None:
    path = files / "P103.jsonl"
    path.write_text(
        json.dumps({"sub_label": "The Jean", "obj_label": "the"}) + "\n" + json.dumps({"sub_label": "A", "obj_label": "cat"})
    )
    code, shown, _ = run_at(host.target, "facts", str(path), "--template", "[X] is [Y].", "--uhn", "--model", "bert")
    assert code == 0
    assert "left out as easy to guess: 1 by a right object in the subject" in shown
