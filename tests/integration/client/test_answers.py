"""`answer_questions` and `bertscope answer` against a server."""

import json
import sys
from collections.abc import Callable
from io import BytesIO, TextIOWrapper
from pathlib import Path

import bertscope
import bertscope_workbench as workbench
import pytest
from bertscope_workbench.command.app import run

from tests.support.harness import Host

QUESTION, PASSAGE = "Where is the café?", "The café in Zürich serves a naïve soufflé. 東京 is large 😀."
Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(lab: Host, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs a command against the server: its exit code, stdout and stderr."""
    monkeypatch.setenv("BERTSCOPE_TARGET", lab.target)

    def run_command(*arguments: object) -> tuple[int, str, str]:
        code = run(["answer", *map(str, arguments), "--model", "answerer"])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run_command


@pytest.fixture
def answers(lab: Host) -> bertscope.AnsweredQuestions:
    with bertscope.Client(lab.target) as client:
        return client.answer_questions([(QUESTION, PASSAGE * 3), ("Who?", PASSAGE)], model="answerer", best=2, stride=11)


def test_questions_on_one_passage(
    command: Command, answers: bertscope.AnsweredQuestions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "passage.txt"
    file.write_text(PASSAGE * 3, encoding="utf-8")
    code, out, err = command(QUESTION, "Who?", "--passage-file", file, "--best", 2, "--stride", 11)
    assert (code, err) == (0, "")
    assert out.count("(no answer)") == 2
    assert f"read in {answers[0].windows} windows" in out
    assert f"{answers[0].spans[1].start}-{answers[0].spans[1].end}" in out
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO((PASSAGE * 3).encode())))
    code, out, _ = command(QUESTION, "--passage-file", "-", "--best", 2, "--stride", 11, "--json")
    (result,) = json.loads(out)["results"]
    assert [span["text"] for span in result["spans"]] == [span.text for span in answers[0].spans]


def test_a_file_of_questions(command: Command, answers: bertscope.AnsweredQuestions, tmp_path: Path) -> None:
    file, rows = tmp_path / "questions.jsonl", tmp_path / "rows.jsonl"
    items = [{"question": QUESTION, "context": PASSAGE * 3}, {"question": "Who?", "context": PASSAGE}]
    file.write_text("\n".join(map(json.dumps, items)), encoding="utf-8")
    options = ("--questions", file, "--columns", "passage=context", "--best", 2, "--stride", 11)
    code, _, err = command(*options, "--output", rows)
    assert (code, err) == (0, "")
    written = [json.loads(line) for line in rows.read_text(encoding="utf-8").splitlines()]
    assert [row["predicted_answer"] for row in written] == [answer.answer for answer in answers]
    assert workbench.read_questions(file, columns={"passage": "context"}) == [
        (one["question"], one["context"]) for one in items
    ]
    code, out, _ = command(*options, "--json")
    assert [len(result["spans"]) for result in json.loads(out)["results"]] == [2, 2]


def test_a_passage_that_can_not_be_read(command: Command, tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes("café".encode("latin-1"))
    for name, words in (("none", "No such file"), ("latin", "is not UTF-8")):
        code, _, err = command("Who?", "--passage-file", tmp_path / name)
        assert code == 1
        assert words in err
