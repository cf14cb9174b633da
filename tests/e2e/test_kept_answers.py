"""A study whose client is ended goes on, and ends with the rows and page of one that nobody disturbed, byte for byte."""

import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.disturbance import COMMAND, during, rows_of
from tests.support.patience import granted
from tests.support.process import Process

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

COUNT = 600
STUDY = """
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
name = "facts"
title = "Facts"
asked = "Which object?"
definition = "Its rank."
reader = "facts"
files = ["facts.csv"]
relations = {facts = ["[X] is [Y] ."]}
ask = "fact"
"""


WORDS = (*COMMAND, "study", "mine.toml", "--data", ".", "--rows", "rows", "--output", "page.html")
GROWS = "rows/forms.tiny.jsonl"
"""The file that grows first."""


def run(target: str, folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    command = [*WORDS, "--target", target, *more]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=granted(300))


def folder_of(path: Path) -> Path:
    """A folder with all that is asked about."""
    path.mkdir()
    forms = "".join(f"the {number} [MASK] .,of,{'the' if number % 9 else 'unheard'}\n" for number in range(COUNT))
    (path / "forms.csv").write_text("text,right,wrong\n" + forms)
    facts = "".join(f"{number} cats,{'the' if number % 9 else 'unheard'}\n" for number in range(COUNT))
    (path / "facts.csv").write_text("subject,object\n" + facts)
    (path / "mine.toml").write_text(STUDY)
    return path


def written(folder: Path) -> dict[str, bytes]:
    """All that a study has written."""
    found = [path for path in folder.rglob("*") if path.is_file() and path.name not in ("forms.csv", "facts.csv", "mine.toml")]
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, steady: Process) -> dict[str, bytes]:
    """What a study writes that nobody disturbs."""
    folder = folder_of(tmp_path_factory.mktemp("whole") / "study")
    done = run(steady.target, folder)
    assert (done.returncode, done.stderr) == (0, "")
    return written(folder)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_client_that_is_ended_goes_on(
    steady: Process, whole: dict[str, bytes], tmp_path: Path, number: signal.Signals
) -> None:
    folder = folder_of(tmp_path / "study")
    command = [*WORDS, "--target", steady.target]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as client:
        during(folder / GROWS, COUNT // 4, lambda: client.send_signal(number)).join()
        _, err = client.communicate(timeout=granted(60))
    assert COUNT // 4 <= rows_of(folder / GROWS) < COUNT
    if number == signal.SIGTERM:
        assert (client.returncode, len(err.splitlines())) == (143, 1)
        assert err.startswith("bertscope: ended by SIGTERM; ") and err.endswith("with --resume goes on\n")
    assert run(steady.target, folder).returncode == 1  # nothing is overwritten
    done = run(steady.target, folder, "--resume")
    assert (done.returncode, done.stderr) == (0, "")
    assert written(folder) == whole
