"""Commands that are disturbed in every way end with the files of an undisturbed run, byte for byte, or with none."""

import csv
import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.claims import FORMS, STUDY, reproduction_toml
from tests.support.disturbance import ALONE, COMMAND, during, rows_of
from tests.support.patience import granted, wait_until
from tests.support.process import Process

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

TEXTS = 2_000


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("texts") / "texts.jsonl"
    rows = [{"text": f"The {number} cats sat on the [MASK].", "id": number} for number in range(TEXTS)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, steady: Process, texts: Path) -> bytes:
    """The file of an undisturbed run over the texts."""
    output = tmp_path_factory.mktemp("whole") / "whole.csv"
    done = fill(steady, texts, output)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"wrote {output}: {TEXTS} rows\n"
    return output.read_bytes()


def arguments(process: Process, texts: Path, output: Path, *more: str) -> list[str]:
    return [*COMMAND, "fill", "--texts", str(texts), "--output", str(output), "--target", process.target, *more]


def fill(process: Process, texts: Path, output: Path, *more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(arguments(process, texts, output, *more), capture_output=True, text=True, timeout=granted(300))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_client_that_is_ended_leaves_a_file_that_goes_on(
    steady: Process, texts: Path, whole: bytes, tmp_path: Path, number: signal.Signals
) -> None:
    output = tmp_path / "out.csv"
    for rows in (1, 600):
        command = arguments(steady, texts, output, "--resume")
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as client:
            during(output, rows, lambda client=client: client.send_signal(number)).join()
            _, err = client.communicate(timeout=granted(60))
        assert rows <= rows_of(output) < TEXTS
        if number == signal.SIGKILL:
            assert client.returncode == -number
        else:
            assert client.returncode == 128 + number
            assert output.read_bytes().endswith(b"\n")
            assert err.endswith(f"has {rows_of(output)} of {TEXTS} rows: the same command with --resume goes on\n")
            assert len(err.splitlines()) == 1
    done = fill(steady, texts, output, "--resume")
    assert (done.returncode, done.stderr) == (0, "")
    assert output.read_bytes() == whole


def test_a_full_disk_leaves_whole_rows(steady: Process, texts: Path, whole: bytes, tmp_path: Path) -> None:
    """A limit of the shell stands for the disk: the write that crosses it is cut in the middle of a row."""
    output = tmp_path / "out.csv"
    command = ["bash", "-c", 'ulimit -f 100; exec "$@"', "bash", *arguments(steady, texts, output)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=granted(300))
    assert done.returncode == 1
    assert done.stderr.startswith(
        f"bertscope: cannot write {output}: File too large; {output} has {rows_of(output)} of {TEXTS} rows"
    )
    assert len(done.stderr.splitlines()) == 1
    assert whole.startswith(output.read_bytes()) and output.read_bytes().endswith(b"\n")
    assert fill(steady, texts, output, "--resume").returncode == 0
    assert output.read_bytes() == whole


def test_a_server_that_comes_back_is_waited_for(
    launch: Callable[..., Process], tiny: Path, texts: Path, whole: bytes, tmp_path: Path
) -> None:
    first = launch("--model", f"tiny={tiny}", *ALONE)
    first.wait_until_serving()
    port = str(first.ports["port"])
    output = tmp_path / "out.csv"
    with subprocess.Popen(arguments(first, texts, output), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as client:
        during(output, 1, first.popen.kill).join()
        first.end()
        second = launch("--model", f"tiny={tiny}", *ALONE, "--port", port)
        second.wait_until_serving()
        _, err = client.communicate(timeout=granted(300))
    said = [line for line in err.splitlines() if not line.startswith("filling, ")]  # how far it is
    assert (client.returncode, said) == (0, [])
    assert output.read_bytes() == whole


COUNT = 600
MINE = (
    STUDY
    + FORMS
    + reproduction_toml(
        "facts",
        """
reader = "facts"
files = ["facts.csv"]
relations = {facts = ["[X] is [Y] ."]}
ask = "fact"
""",
    )
)


WORDS = (*COMMAND, "study", "mine.toml", "--data", ".", "--rows", "rows", "--output", "page.html")
GROWS = "rows/forms.tiny.jsonl"
"""The file that grows first."""


def study(target: str, folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    command = [*WORDS, "--target", target, *more]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=granted(300))


def folder_of(path: Path) -> Path:
    """A folder with all that is asked about."""
    path.mkdir()
    forms = "".join(f"the {number} [MASK] .,of,{'the' if number % 9 else 'unheard'}\n" for number in range(COUNT))
    (path / "forms.csv").write_text("text,right,wrong\n" + forms)
    facts = "".join(f"{number} cats,{'the' if number % 9 else 'unheard'}\n" for number in range(COUNT))
    (path / "facts.csv").write_text("subject,object\n" + facts)
    (path / "mine.toml").write_text(MINE)
    return path


def written(folder: Path) -> dict[str, bytes]:
    """All that a study has written, but for the files that say how long it took."""
    given = ("forms.csv", "facts.csv", "mine.toml", "page.json", "page.parquet")
    found = [path for path in folder.rglob("*") if path.is_file() and path.name not in given]
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


@pytest.fixture(scope="module")
def whole_study(tmp_path_factory: pytest.TempPathFactory, steady: Process) -> dict[str, bytes]:
    """What a study writes that nobody disturbs."""
    folder = folder_of(tmp_path_factory.mktemp("whole") / "study")
    done = study(steady.target, folder)
    assert (done.returncode, done.stderr) == (0, "")
    return written(folder)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_study_whose_client_is_ended_goes_on(
    steady: Process, whole_study: dict[str, bytes], tmp_path: Path, number: signal.Signals
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
    assert study(steady.target, folder).returncode == 1  # nothing is overwritten
    done = study(steady.target, folder, "--resume")
    assert (done.returncode, done.stderr) == (0, "")
    assert written(folder) == whole_study


SENTENCES = 3000
BEGUN = 100_000
"""Bytes of a part: some calls have been answered, and not all."""


@pytest.fixture
def command(steady: Process, tmp_path: Path) -> list[str]:
    """Writes to out.npy, of which every state is there as soon as it has come."""
    texts = tmp_path / "texts.txt"
    texts.write_text("".join(f"The {number} cats sat on a mat.\n" for number in range(SENTENCES)))
    output = tmp_path / "out" / "out.npy"
    output.parent.mkdir()
    return [*COMMAND, "states", "--texts", str(texts), "--target", steady.target, "--output", str(output)]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_states_whose_client_is_ended_are_no_file_and_the_next_run_writes_a_whole_one(
    command: list[str], tmp_path: Path, number: signal.Signals
) -> None:
    folder = tmp_path / "out"
    output, part = folder / "out.npy", folder / "out.npy.part"
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as client:
        wait_until(lambda: part.exists() and part.stat().st_size > BEGUN, "the run has begun")
        client.send_signal(number)
        _, err = client.communicate(timeout=granted(60))
    assert not output.exists()
    if number == signal.SIGKILL:
        assert client.returncode == -number and part.exists()
    else:
        assert client.returncode == 128 + number
        assert f"nothing was written to {output}, which appears when it is whole: " in err
        assert len(err.splitlines()) == 1 and not [*folder.iterdir()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=granted(200))
    said = [line for line in done.stderr.splitlines() if not line.startswith("extracting, ")]  # how far it is
    assert (done.returncode, said) == (0, [])
    assert f"rows of {SENTENCES} texts" in done.stdout
    assert sorted(path.name for path in folder.iterdir()) == ["out.npy", "out.npy.json", "out.npy.jsonl"]


def number(cell: str) -> Any:
    """Sums over parts differ in their last digits."""
    try:
        return float(cell)
    except ValueError:
        return cell


LONG = {
    "trace": ("--pairs", "{folder}/pairs.tsv", "--together"),
    "find": ("{folder}/texts.txt", "--unit", "heads", "--nearest", "2:the *cats* sat", "--sample", "20"),
}
"""Long work that keeps what it has found, and what it is about."""


@pytest.mark.parametrize("name", LONG)
def test_long_work_that_is_killed_goes_on_to_the_result_of_an_unbroken_run(steady: Process, tmp_path: Path, name: str) -> None:
    pairs = "".join(
        f"the {number} cats sat on the [MASK] .\tthe {number} dogs sat on the [MASK] .\tof\n" for number in range(600)
    )
    (tmp_path / "pairs.tsv").write_text("clean\tcorrupted\tanswer\n" + pairs)
    (tmp_path / "texts.txt").write_text("".join(f"the {number} cats sat\n" for number in range(700)))
    command = [*COMMAND, name, *(part.format(folder=tmp_path) for part in LONG[name]), "--target", steady.target]

    def run(*more: str) -> None:
        done = subprocess.run([*command, *more], cwd=tmp_path, capture_output=True, text=True, timeout=granted(300))
        assert (done.returncode, done.stderr) == (0, "")

    def kept() -> list[Path]:
        return [*tmp_path.glob("cut.partial.*")]

    run("--output", "whole.csv")
    with subprocess.Popen([*command, "--output", "cut.csv"], cwd=tmp_path, stdout=subprocess.DEVNULL) as client:
        wait_until(lambda: any(path.suffix != ".part" for path in kept()) or client.poll() is not None, "something is kept")
        client.kill()
    assert client.returncode == -signal.SIGKILL
    run("--output", "cut.csv", "--resume", "cut.partial.csv")  # It finds the file that a table would have beside it.
    rows, whole = (list(csv.reader((tmp_path / f"{name}.csv").open())) for name in ("cut", "whole"))
    assert [[number(cell) for cell in row] for row in rows] == [pytest.approx([number(cell) for cell in row]) for row in whole]
    assert not [path for path in kept() if path.suffix != ".part"]
