"""Reproductions on a real server: tiny files in the published formats, figures, the page, and what stays of a run."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from bertscope import Client, InvalidArgument
from bertscope.questions.facts.answers import Fact, FactRelation, FactTemplate
from bertscope.values.models import short_name
from bertscope_workbench.command.app import run
from bertscope_workbench.papers.claim_files import read_study
from bertscope_workbench.papers.documents import claims_document, claims_rows
from bertscope_workbench.papers.items import Data
from bertscope_workbench.papers.published.reproduced import EASY, HARD, Reproduced
from bertscope_workbench.papers.published.shown import tables
from bertscope_workbench.papers.run import ClaimsRun, Compared, run_claims

from tests.support.claims import FORMS, STUDY, reproduction_toml
from tests.support.harness import Host

DEFINITION = (
    STUDY
    + FORMS
    + reproduction_toml(
        "ranks",
        """
reader = "table"
files = ["ranks.csv"]
ask = "blank"
metrics = ["p@1", "p@500", "mrr"]
""",
    )
    + reproduction_toml(
        "pairs",
        """
reader = "table"
files = ["pairs.jsonl"]
ask = "pair"
groups = ["kind"]
""",
    )
    + reproduction_toml(
        "facts",
        """
reader = "facts"
files = ["facts.csv"]
relations = {facts = ["[X] is [Y] .", "the [X] is [Y] ."]}
negated = {facts = "[X] is not [Y] ."}
negate = true
ask = "fact"
metrics = ["p@500", "mrr", "consistency", "same_if_negated"]
""",
    )
)


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


def found_of(primer: ClaimsRun, claim: str, model: int = 0) -> Reproduced:
    found = primer.result(claim, model).reproduced
    assert found is not None
    return found


def test_figures_equal_those_of_single_calls(host: Host, folder: Path) -> None:
    claims = read_study(str(folder / "mine.toml"))
    with Client(host.target) as client:
        primer = run_claims(
            client, claims, models=["bert"], data=Data(folder), compared=Compared(baseline="roberta"), name="mine"
        )
        expected = []
        for text, right, wrong in (("the [MASK] .", "of", "the"), ("[MASK] it is .", "a", "the")):
            (answer,) = client.fill_mask(text, model="bert", candidates=[right, wrong])
            expected.append(answer.masks[0].predictions[0].token == right)
        (first,) = client.fill_mask("the [MASK] .", model="bert", candidates=["of", "the"])
        (second,) = client.fill_mask("a [MASK] of it .", model="bert", candidates=["the"])
        relation = FactRelation("facts", ["[X] is [Y] .", "the [X] is [Y] .", FactTemplate("[X] is not [Y] .", negated=True)])
        known = client.query_facts([Fact("it", ["of", "the"]), Fact("the", "a")], relation, model="bert").scores()["facts"]
        compared = client.compare_texts([("the cat is here .", "is the here cat .")], model="bert")
    assert [short_name(each.model) for each in primer.models] == ["bert", "roberta"]
    forms, ranks, pairs, facts = (found_of(primer, name) for name in ("forms", "ranks", "pairs", "facts"))
    assert facts.figure("mrr").value == pytest.approx(known.mrr)
    assert facts.figure("consistency").value == pytest.approx(known.consistency)
    assert facts.figure("same_if_negated").value == pytest.approx(known.same_if_negated)
    assert facts.outcomes[2].skipped == "no object is a single entry of the vocabulary"
    assert [outcome.right for outcome in forms.outcomes[:2]] == expected
    reasons = [outcome.skipped for outcome in forms.outcomes[2:]]
    assert "the text" in reasons[0]
    assert reasons[1] == "a word is not a single entry of the vocabulary"
    best = [min(each.rank or 0 for each in answer.masks[0].predictions) for answer in (first, second)]
    assert [outcome.rank for outcome in ranks.outcomes] == best
    assert ranks.figure("mrr").value == pytest.approx(sum(1 / rank for rank in best) / 2)
    assert [outcome.tied for outcome in pairs.outcomes] == [False, True]
    assert pairs.outcomes[0].right == (compared.sets[0].outcome == "right")
    assert found_of(primer, "pairs", 1).figure("accuracy", "same").items == 1
    assert [(each.group, each.metric) for each in pairs.differences[:2]] == [("", "accuracy"), ("order", "accuracy")]
    assert (pairs.baseline, found_of(primer, "pairs", 1).differences) == ("roberta", ())
    rows = claims_rows(primer)
    assert len([row for row in rows if row[0] == "bert" and row[3] == "pairs"]) == len(pairs.figures) == 3
    document = json.loads(json.dumps(claims_document(primer), allow_nan=False))
    assert document["claims"][2]["reproduction"][0]["differences"][0]["only_model"] == pairs.differences[0].only_model


def test_facts_are_primed_ranked_among_a_vocabulary_and_divided_by_how_easy_they_are(host: Host, folder: Path) -> None:
    text = DEFINITION.replace('"same_if_negated"]', '"same_if_negated", "misprimed", "unprimed_p@1"]')
    (folder / "mine.toml").write_text(
        text.replace("negate = true", "negate = true\nprime = true\nuhn = true"), encoding="utf-8"
    )
    (folder / "words.txt").write_text("of\nthe\na\nis\n", encoding="utf-8")
    (folder / "facts.csv").write_text("subject,object\nit,of|the\nthe,a\nof,a\na,a\n", encoding="utf-8")
    claims = read_study(str(folder / "mine.toml"), ["ranks", "facts"])
    with Client(host.target) as client:
        primer = run_claims(
            client,
            claims,
            models=["bert"],
            data=Data(folder, vocabulary=folder / "words.txt"),
            compared=Compared(baseline="roberta"),
        )
        (first,) = client.query_facts(
            Fact("the", ["of", "the"]), FactRelation("r", "[X] [Y] ."), model="bert", vocabulary=["of", "the", "a", "is"]
        )
    ranks, facts = found_of(primer, "ranks"), found_of(primer, "facts")
    assert ranks.outcomes[0].rank == first.answers[0].rank
    assert all(0 < outcome.rank <= 4 for outcome in facts.outcomes)
    assert {figure.group for figure in found_of(primer, "facts", 1).figures} == {"", "facts", EASY, HARD}
    assert facts.figure("p@500", EASY).items == 1
    assert 0 <= facts.figure("misprimed").value <= 1
    assert "ranks among the 4 words of words.txt" in tables([ranks])[0].caption


def test_the_command_prints_a_table_and_writes_a_page(host: Host, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = folder / "page.html"
    name = folder / "mine.toml"
    code, out, err = study(capsys, host, name, "--data", folder, "--model", "bert", "--output", page, "--dark")
    assert (code, err) == (0, "")
    assert "no published figure can be compared" in out
    assert "1 skipped: a word is not a single entry of the vocabulary" in out
    text = page.read_text(encoding="utf-8")
    assert (text.count("<figure>"), text.count("<caption>")) == (4, 4)
    assert '<html lang="en" class="dark">' in text
    assert re.search(r"src=|href=\"(?!#)|url\((?!#)", text) is None
    assert not page.with_suffix(".kept").exists()


def test_a_study_that_ships_needs_no_data(host: Host, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.html"
    code, out, err = study(capsys, host, "capitals", "--limit", "8", "--only", "capital", "--output", page)
    assert (code, err) == (0, "")
    assert json.loads(page.with_suffix(".json").read_text())["name"] == "capitals"
    assert "8 skipped" in out or "items" in out


def test_a_model_without_a_head_is_not_asked(host: Host, tmp_path: Path) -> None:
    with Client(host.target) as client:
        found = run_claims(client, read_study("capitals"), models=["headless"]).result("country")
    assert (found.verdict, found.why) == ("not asked", "headless has no masked-LM head (capability cloze)")


def test_a_baseline_is_another_model(host: Host) -> None:
    with Client(host.target) as client, pytest.raises(InvalidArgument, match="is one of the models"):
        run_claims(client, read_study("capitals"), models=["bert"], compared=Compared(baseline="bert"))


def test_what_a_run_writes_is_no_data_of_its_own(
    host: Host, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Page and answers lie in the folder of --data, where a pattern of the study fits them, too."""
    monkeypatch.chdir(folder)
    (folder / "mine.toml").write_text(
        STUDY
        + reproduction_toml("pairs", 'reader = "table"\nfiles = ["**/*.jsonl"]\nask = "pair"')
        + """
[[claim.test]]
name = "share"
measured = "attention to special tokens"
unit = "share"
control = "uniform attention"
holds = "above"
threshold = 0.1
reason = "seen at once"
measure = "attention.special_mass"
"""
    )
    words = ("mine.toml", "--data", ".", "--limit", 5, "--rows", "rows", "--output", "page.html", "--model", "bert")
    code, first, err = study(capsys, host, *words)
    assert (code, err) == (0, "")
    assert study(capsys, host, *words, "--resume") == (0, first, "")
    (folder / "pairs.jsonl").write_text('{"good": "the cat", "bad": "cat the"}\n')
    code, _, err = study(capsys, host, *words, "--resume")
    assert code == 1
    assert "can't go on" in err
    assert "--resume goes on" not in err
