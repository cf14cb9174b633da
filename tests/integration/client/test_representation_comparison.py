"""`compare_representations` and `bertscope cka`: any number of texts, one comparison, the same as of one call."""

import json
from pathlib import Path

import pandas
import pytest
from bertscope_workbench.command.app import run

from tests.support.harness import Host


def test_the_command_prints_draws_and_writes(
    host: Host, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BERTSCOPE_TARGET", host.target)
    picture, rows = tmp_path / "cka.png", tmp_path / "cka.csv"
    texts = ["The cat sat on the mat.", "It is late."]
    assert run(["cka", *texts, "Nobody waited.", "--compare", "roberta", "--plot", str(picture), "--output", str(rows)]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "models/bert and models/roberta" in printed and "fewer than four words: 1 text" in printed
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert pandas.read_csv(rows).shape == (25, 4)
    assert run(["cka", *texts, "--zero", "0", "--layer", "4,0", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["layers"], found["other_layers"], found["interventions"]) == ([4, 0], [4, 0], True)
    assert found["cka"][1][1] == pytest.approx(1, abs=1e-4)
