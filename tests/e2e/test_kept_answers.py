"""Facts and studies whose server or client is ended go on, and end with the rows and page of others, byte for byte."""

import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.disturbance import ALONE, COMMAND, during, rows_of
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


@dataclass(frozen=True)
class Job:
    """A command that writes rows into a folder of its own."""

    words: tuple[str, ...]
    grows: str
    """The file that grows first."""

    def run(self, target: str, folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(self.command(target, *more), cwd=folder, capture_output=True, text=True, timeout=granted(300))

    def begin(self, target: str, folder: Path, *more: str) -> subprocess.Popen[str]:
        command = self.command(target, *more)
        return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def command(self, target: str, *more: str) -> list[str]:
        return [*COMMAND, *self.words, "--target", target, *more]


JOBS = {
    "facts": Job(("facts", "facts.csv", "--template", "[X] is [Y] .", "--rows", "rows.csv"), "rows.csv"),
    "study": Job(("study", "mine.toml", "--data", ".", "--rows", "rows", "--output", "page.html"), "rows/forms.tiny.jsonl"),
}


@pytest.fixture(params=JOBS)
def job(request: pytest.FixtureRequest) -> Job:
    return JOBS[request.param]


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
    """All that a job has written."""
    found = [path for path in folder.rglob("*") if path.is_file() and path.name not in ("forms.csv", "facts.csv", "mine.toml")]
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, steady: Process) -> dict[str, dict[str, bytes]]:
    found = {}
    for name, job in JOBS.items():
        folder = folder_of(tmp_path_factory.mktemp("whole") / name)
        done = job.run(steady.target, folder)
        assert (done.returncode, done.stderr) == (0, "")
        found[job.grows] = written(folder)
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return folder_of(tmp_path / "job")


@pytest.fixture
def whole(undisturbed: dict[str, dict[str, bytes]], job: Job) -> dict[str, bytes]:
    return undisturbed[job.grows]


def test_a_killed_server_of_two_costs_nothing(
    steady: Process, launch: Callable[..., Process], tiny: Path, job: Job, folder: Path, whole: dict[str, bytes]
) -> None:
    victim = launch("--model", f"tiny={tiny}", *ALONE)
    victim.wait_until_serving()
    with job.begin(f"{steady.target},{victim.target}", folder) as client:
        during(folder / job.grows, COUNT // 4, victim.popen.kill).join()
        _, err = client.communicate(timeout=granted(300))
    assert (client.returncode, err) == (0, "")
    assert written(folder) == whole


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_client_that_is_ended_goes_on(
    steady: Process, job: Job, folder: Path, whole: dict[str, bytes], number: signal.Signals
) -> None:
    with job.begin(steady.target, folder) as client:
        during(folder / job.grows, COUNT // 4, lambda: client.send_signal(number)).join()
        _, err = client.communicate(timeout=granted(60))
    assert COUNT // 4 <= rows_of(folder / job.grows) < COUNT
    if number == signal.SIGTERM:
        assert (client.returncode, len(err.splitlines())) == (143, 1)
        assert err.startswith("bertscope: ended by SIGTERM; ") and err.endswith("with --resume goes on\n")
    assert job.run(steady.target, folder).returncode == 1  # nothing is overwritten
    done = job.run(steady.target, folder, "--resume")
    assert (done.returncode, done.stderr) == (0, "")
    assert written(folder) == whole
