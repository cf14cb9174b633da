"""Commands for attention, representations, words and answers on a real server: what they print, draw and write."""

import json
import sys
from collections.abc import Callable
from functools import partial
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import bertscope
import bertscope_workbench as workbench
import numpy as np
import pandas
import pytest
from bertscope.questions.attention.description import STATISTICS

from tests.support.harness import Host

Command = Callable[..., tuple[int, str, str]]
PNG = b"\x89PNG"


@pytest.fixture
def shown(host: Host, run_at: Command) -> Callable[..., str]:
    """What a command prints on the server; it ends well and says nothing else."""

    def run(*words: object) -> str:
        code, out, err = run_at(host.target, *words)
        assert (code, err) == (0, "")
        return out

    return run


def test_compared_attention(shown: Callable[..., str], tmp_path: Path) -> None:
    options = ("--plot", "heads.png", "--output", "heads.csv")
    printed = " ".join(shown("attention", "compare", "headless", "The cat sat.", "Nobody waited.", *options).split())
    for words in (
        "2 texts",
        "models/bert and models/headless",
        "cosine of the maps of each head",
        "divergence",
        "wrote heads.png",
    ):
        assert words in printed
    assert (tmp_path / "heads.png").read_bytes().startswith(PNG)
    table = pandas.read_csv("heads.csv")
    assert table.shape == (16, 3 + 2 * (2 + len(STATISTICS) - 1))  # single texts have no other text
    assert table.cosine.between(0, 1).all()
    changed = ("attention", "compare", "bert", "The cat sat.", "--zero", "0")
    assert "models/bert, untouched and under interventions" in shown(*changed)
    found = json.loads(shown(*changed, "--json"))
    np.testing.assert_allclose(found["cosine"]["mean"][0], 1, rtol=0, atol=1e-5)
    assert found["other_provenance"]["model"] == "models/bert"


def test_compared_representations(shown: Callable[..., str], host: Host, run_at: Command, tmp_path: Path) -> None:
    texts = ["The cat sat on the mat.", "It is late."]
    asked = ("cka", *texts, "Nobody waited.", "--compare", "roberta", "--plot", "cka.png", "--output", "cka.csv")
    printed = " ".join(shown(*asked).split())
    assert "models/bert and models/roberta" in printed and "fewer than four words: 1 text" in printed
    assert (tmp_path / "cka.png").read_bytes().startswith(PNG)
    assert pandas.read_csv("cka.csv").shape == (25, 4)
    found = json.loads(shown("cka", *texts, "--zero", "0", "--layer", "4,0", "--json"))
    assert (found["layers"], found["other_layers"], found["interventions"]) == ([4, 0], [4, 0], True)
    assert found["cka"][1][1] == pytest.approx(1, abs=1e-4)
    code, out, err = run_at(host.target, "cka", "a", "Nobody waited.")
    assert (code, out) == (1, "") and "nothing to compare: 2 texts of fewer than four words; give" in err


def test_neighbours_and_variance_of_words(shown: Callable[..., str]) -> None:
    texts = ("The cat sat.", "A cat sat on the mat.")
    near = partial(shown, "geometry", "neighbours", *texts, "--word", "cat")
    printed = near("--nearest", "2", "--layer", "0,4", "--output", "rows.csv")
    assert "text 1: The [cat] sat." in printed and "cat (2): 1.00" in printed
    assert pandas.read_csv("rows.csv")["rank"].tolist() == [1, 2] * 4
    neighbours = json.loads(near("--other-words", "--json"))["neighbours"]
    assert {row["neighbour"] for row in neighbours}.isdisjoint({"cat"})
    varied = partial(shown, "geometry", *texts, "--word", "cat", "--variance")
    assert "share of a word's states" in varied()
    found = json.loads(varied("--json"))
    assert found["explainable_variance"]["words"][0]["vectors"] == 2


def test_rows_of_attributions_go_on_where_they_ended(host: Host, shown: Callable[..., str], run_at: Command) -> None:
    Path("items.csv").write_text("text,answer,other\nThe man was [MASK].,old,young\nShe was [MASK].,young,old\n")
    asked = ("attribute", "--texts", "items.csv", "--method", "occlusion", "--output")
    shown(*asked, "rows.jsonl")
    lines = Path("rows.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    rows = list(map(json.loads, lines))
    assert [row["target"] for row in rows] == ['logit of "old" minus that of "young"', 'logit of "young" minus that of "old"']
    assert rows[0]["words"] == ["The", "man", "was", "."]
    assert sum(rows[0]["values"]) + rows[0]["rest"] == pytest.approx(rows[0]["value"] - rows[0]["value_absent"])
    Path("cut.jsonl").write_text(lines[0], encoding="utf-8")
    shown(*asked, "cut.jsonl", "--resume")
    assert Path("cut.jsonl").read_bytes() == Path("rows.jsonl").read_bytes()
    code, _, err = run_at(host.target, *asked, "cut.jsonl", "--resume", "--pieces")
    assert code == 1 and "the option unit was" in err


def test_words_of_a_text_are_printed_and_drawn(shown: Callable[..., str], tmp_path: Path) -> None:
    asked = ("attribute", "The man was [MASK].", "--answer", "old", "--other", "young")
    lines = shown(*asked, "--interactions", "--plot", "words.svg").splitlines()
    assert lines[0] == 'logit of "old" minus that of "young"'
    assert lines[1].split() == ["The", "man", "was", "[MASK]", "."]
    assert len(lines[2].split()) == 4
    assert all(number[0] in "+-" for number in lines[2].split())
    assert lines[3].endswith("(16 texts)") and "wrote words.svg" in lines
    assert (tmp_path / "words.svg").stat().st_size > 1000
    (document,) = json.loads(shown(*asked, "--json"))["results"]
    assert [word["word"] for word in document["words"]] == ["The", "man", "was", "."]


QUESTION, PASSAGE = "Where is the café?", "The café in Zürich serves a naïve soufflé. 東京 is large 😀."


@pytest.fixture
def answers(lab: Host) -> bertscope.AnsweredQuestions:
    with bertscope.Client(lab.target) as client:
        return client.answer_questions([(QUESTION, PASSAGE * 3), ("Who?", PASSAGE)], model="answerer", best=2, stride=11)


@pytest.fixture
def answer(lab: Host, run_at: Command) -> Command:
    """Runs `bertscope answer` on the server."""
    return lambda *words: run_at(lab.target, "answer", *words, "--model", "answerer")


def test_questions_on_one_passage(answer: Command, answers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("passage.txt").write_text(PASSAGE * 3, encoding="utf-8")
    code, out, err = answer(QUESTION, "Who?", "--passage-file", "passage.txt", "--best", 2, "--stride", 11)
    assert (code, err, out.count("(no answer)")) == (0, "", 2)
    assert f"read in {answers[0].windows} windows" in out
    assert f"{answers[0].spans[1].start}-{answers[0].spans[1].end}" in out
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO((PASSAGE * 3).encode())))
    _, out, _ = answer(QUESTION, "--passage-file", "-", "--best", 2, "--stride", 11, "--json")
    (result,) = json.loads(out)["results"]
    assert [span["text"] for span in result["spans"]] == [span.text for span in answers[0].spans]
    Path("latin").write_bytes("café".encode("latin-1"))
    for name, words in (("none", "No such file"), ("latin", "is not UTF-8")):
        code, _, err = answer("Who?", "--passage-file", name)
        assert (code, words in err) == (1, True)


def test_a_file_of_questions(answer: Command, answers: Any) -> None:
    items = [{"question": QUESTION, "context": PASSAGE * 3}, {"question": "Who?", "context": PASSAGE}]
    Path("questions.jsonl").write_text("\n".join(map(json.dumps, items)), encoding="utf-8")
    options = ("--questions", "questions.jsonl", "--columns", "passage=context", "--best", 2, "--stride", 11)
    assert answer(*options, "--output", "rows.jsonl")[::2] == (0, "")
    written = [json.loads(line) for line in Path("rows.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [row["predicted_answer"] for row in written] == [answer.answer for answer in answers]
    found = workbench.read_questions("questions.jsonl", columns={"passage": "context"})
    assert found == [(one["question"], one["context"]) for one in items]
    assert [len(result["spans"]) for result in json.loads(answer(*options, "--json")[1])["results"]] == [2, 2]
