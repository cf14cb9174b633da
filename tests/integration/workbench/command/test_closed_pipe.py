"""Commands write their files when nobody reads what they print: `bertscope sweep ... --output effects.tsv | head -1`."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from bertscope_workbench.command.app import run

from tests.support.fake_server import FakeServer


@contextmanager
def closed_pipe(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Has the standard output of a command whose reader has gone."""
    reader, writer = os.pipe()
    os.close(reader)
    with suppress(BrokenPipeError), open(writer, "w", encoding="utf-8") as stream, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", stream)
        yield


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    path = tmp_path / "texts.txt"
    path.write_text("one\ntwo\nthree\n")
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "file"),
    [
        (("sweep", "--texts", "{texts}", "--output"), "effects.tsv"),
        (("sweep", "--texts", "{texts}", "--json", "--plot"), "effects.png"),
        (("rank", "--texts", "{texts}", "--plot"), "ranking.png"),
        (("benchmark", "--model", "fake", "--output"), "report.json"),
        (("trace", "a key [MASK]", "a keys [MASK]", "--answers", "is,are", "--output"), "trace.json"),
    ],
)
def test_files_are_written_though_nobody_reads(
    server: FakeServer,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    texts: Path,
    command: tuple[str, ...],
    file: str,
) -> None:
    monkeypatch.setenv("BERTSCOPE_TARGET", server.target)
    path = tmp_path / file
    with closed_pipe(monkeypatch), pytest.raises(SystemExit) as ended:
        run([*(part.format(texts=texts) for part in command), str(path)])
    assert ended.value.code == 1
    assert path.stat().st_size
