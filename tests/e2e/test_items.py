"""Runs over many items that are disturbed in every way end with the file of an undisturbed run, byte for byte."""

import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import bertscope
import pytest

from tests.support.disturbance import ALONE, COMMAND, during, rows_of
from tests.support.patience import granted
from tests.support.process import Process

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

PAIRS, TEXTS = 2_000, 2_000


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pairs") / "pairs.tsv"
    rows = (f"u{number % 7}\t{number}\tA cat {number} sat.\tA cat {number} old.\n" for number in range(PAIRS))
    path.write_text("UID\tn\tgood\tbad\n" + "".join(rows))
    return path


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


def compare(target: str, pairs: Path, output: Path) -> bertscope.WrittenItems:
    items = bertscope.ItemFile(pairs, bertscope.PAIRS)
    with bertscope.Client(target) as client:
        return bertscope.write_items(output, items, client.compare_texts_stream, options={"critical_region": True})


def test_a_killed_server_of_two_costs_no_row_of_two_thousand_pairs(
    steady: Process, launch: Callable[..., Process], tiny: Path, pairs: Path, tmp_path: Path
) -> None:
    victim = launch("--model", f"tiny={tiny}", *ALONE)
    victim.wait_until_serving()
    output = tmp_path / "two.csv"
    killing = during(output, PAIRS // 2, victim.popen.kill)
    assert compare(f"{steady.target},{victim.target}", pairs, output).rows == PAIRS
    killing.join()
    assert victim.popen.poll() is not None
    with bertscope.Client(steady.target) as client:
        client.get_model()
    assert victim.text.count("CompareTexts") > 3  # Both shared the work.
    assert compare(steady.target, pairs, tmp_path / "one.csv").rows == PAIRS
    assert output.read_bytes() == (tmp_path / "one.csv").read_bytes()


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
    said = [line for line in err.splitlines() if not line.startswith("filling, ")]  # how far it is, on a slow machine
    assert (client.returncode, said) == (0, [])
    assert output.read_bytes() == whole
