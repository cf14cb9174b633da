"""The command on a real server: a run that is killed goes on to the same page, checkpoints become curves, and files agree."""

import json
import re
import signal
import subprocess
from pathlib import Path

import pandas as pd
import pytest
from bertscope_workbench.papers.documents import COLUMNS
from bertscope_workbench.papers.kept_results import TESTS

from tests.support.disturbance import COMMAND, during
from tests.support.patience import granted
from tests.support.process import Process
from tests.support.tiny import write_checkpoint

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

ONLY = ("--only", "5.1", "--only", "few-patterns", "--limit", "6")
SECONDS = re.compile(r'"seconds": [0-9.e-]+')


def command(target: str, *words: str) -> list[str]:
    return [*COMMAND, "primer", *ONLY, "--target", target, *words]


def asked(target: str, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(target, *words), cwd=folder, capture_output=True, text=True, timeout=granted(300))


def test_a_killed_run_goes_on_to_the_same_page(steady: Process, tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    (tmp_path / "killed").mkdir()
    whole = asked(steady.target, tmp_path / "whole")
    assert whole.returncode == 0, whole.stderr
    assert "Few patterns" in whole.stdout
    folder = tmp_path / "killed"
    running = subprocess.Popen(command(steady.target), cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    during(folder / "primer.kept" / TESTS, 2, lambda: running.send_signal(signal.SIGKILL)).join()
    running.communicate()
    assert running.returncode == -signal.SIGKILL
    refused = asked(steady.target, folder)
    assert refused.returncode == 1
    assert "--resume" in refused.stderr
    resumed = asked(steady.target, folder, "--resume")
    assert resumed.returncode == 0, resumed.stderr
    assert not (folder / "primer.kept").exists()
    pages = [(each / "primer.html").read_text() for each in (tmp_path / "whole", folder)]
    assert pages[0] == pages[1]
    documents = [SECONDS.sub("", (each / "primer.json").read_text()) for each in (tmp_path / "whole", folder)]
    assert documents[0] == documents[1]
    rows = pd.read_parquet(folder / "primer.parquet")
    assert list(rows.columns) == list(COLUMNS)
    tests = [test for claim in json.loads((folder / "primer.json").read_text())["claims"] for test in claim["tests"]]
    assert len(rows) == len(tests)
    assert rows["verdict"].tolist() == [test["results"][0]["verdict"] for test in tests]


def test_checkpoints_are_a_film(steady: Process, tmp_path: Path) -> None:
    folders = [write_checkpoint("bert", tmp_path / f"checkpoint-{step}") for step in (100, 200)]
    found = asked(steady.target, tmp_path, *(f"--revision={folder}" for folder in folders))
    assert found.returncode == 0, found.stderr
    document = json.loads((tmp_path / "primer.json").read_text())
    assert [model["step"] for model in document["models"]] == [100, 200]
    assert "training step" in (tmp_path / "primer.html").read_text()
    listed = subprocess.run(
        [*COMMAND, "models", "list", "--target", steady.target, "--json"], capture_output=True, text=True, timeout=granted(60)
    )
    assert [model["name"] for model in json.loads(listed.stdout)["models"]] == ["models/tiny"]
