"""`bertscope states` disturbed in every way: the file appears whole, or not at all."""

import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.disturbance import COMMAND
from tests.support.patience import granted, wait_until
from tests.support.process import Process

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

TEXTS = 3000
BEGUN = 100_000
"""Bytes of a part: some calls have been answered, and not all."""


@pytest.fixture
def command(steady: Process, tmp_path: Path) -> list[str]:
    """Writes to out.npy, of which every state is there as soon as it has come."""
    texts = tmp_path / "texts.txt"
    texts.write_text("".join(f"The {number} cats sat on a mat.\n" for number in range(TEXTS)))
    output = tmp_path / "out" / "out.npy"
    output.parent.mkdir()
    return [*COMMAND, "states", "--texts", str(texts), "--target", steady.target, "--output", str(output)]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_client_that_is_ended_leaves_no_file_and_the_next_run_a_whole_one(
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
    assert (done.returncode, done.stderr) == (0, "")
    assert f"rows of {TEXTS} texts" in done.stdout
    assert sorted(path.name for path in folder.iterdir()) == ["out.npy", "out.npy.json", "out.npy.jsonl"]


@pytest.mark.parametrize("suffix", [".parquet", ".npy"])
def test_a_full_disk_leaves_no_file(command: list[str], tmp_path: Path, suffix: str) -> None:
    """A limit of the shell stands for the disk."""
    output = tmp_path / "out" / f"out{suffix}"
    limited = ["bash", "-c", 'ulimit -f 500; exec "$@"', "bash", *command[:-1], str(output)]
    done = subprocess.run(limited, capture_output=True, text=True, timeout=granted(200))
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith(f"bertscope: cannot write {output}: ") and "File too large" in done.stderr
    assert not [*output.parent.iterdir()]
