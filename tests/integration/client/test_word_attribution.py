"""`attribute_words` of both clients, and `bertscope attribute`, on a real server."""

import json
from pathlib import Path
from typing import Any

import pytest
from bertscope_workbench.command.app import run

from tests.support.harness import Host

LONG = "The keys to the cabinet that the man saw are [MASK] and the dog walked to the market."
TEXTS = ["The man was [MASK].", LONG, ("The cat [MASK].", "A dog, too."), LONG, LONG, "She was [MASK]."]


def test_rows_go_on_where_they_ended(host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setenv("BERTSCOPE_TARGET", host.target)
    path, output, cut = tmp_path / "items.csv", tmp_path / "rows.jsonl", tmp_path / "cut.jsonl"
    path.write_text("text,answer,other\nThe man was [MASK].,old,young\nShe was [MASK].,young,old\n", encoding="utf-8")
    asked = ["attribute", "--texts", str(path), "--method", "occlusion", "--output"]
    assert run([*asked, str(output)]) == 0
    rows = [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()]
    assert [row["target"] for row in rows] == [
        f'logit of "{one}" minus that of "{other}"' for one, other in (("old", "young"), ("young", "old"))
    ]
    assert rows[0]["words"] == ["The", "man", "was", "."]
    assert sum(rows[0]["values"]) + rows[0]["rest"] == pytest.approx(rows[0]["value"] - rows[0]["value_absent"])
    cut.write_text(output.read_text(encoding="utf-8").splitlines(keepends=True)[0], encoding="utf-8")
    assert run([*asked, str(cut), "--resume"]) == 0
    assert cut.read_bytes() == output.read_bytes()
    assert run([*asked, str(cut), "--resume", "--pieces"]) == 1
    assert "the option unit was" in capsys.readouterr().err


def test_the_command_prints_words_and_draws_them(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setenv("BERTSCOPE_TARGET", host.target)
    figure = tmp_path / "words.svg"
    asked = ["attribute", TEXTS[0], "--answer", "old", "--other", "young", "--interactions", "--plot", str(figure)]
    assert run(asked) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == 'logit of "old" minus that of "young"'
    assert lines[1].split() == ["The", "man", "was", "[MASK]", "."]
    assert len(lines[2].split()) == 4
    assert all(number[0] in "+-" for number in lines[2].split())
    assert lines[3].endswith("(16 texts)")
    assert f"wrote {figure}" in lines
    assert figure.stat().st_size > 1000
    assert run([*asked[:6], "--json"]) == 0
    (document,) = json.loads(capsys.readouterr().out)["results"]
    assert [word["word"] for word in document["words"]] == ["The", "man", "was", "."]
