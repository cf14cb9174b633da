"""Studies: a paper redone on a real server, as one page."""

import base64
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bertscope_workbench.command.app import run

from tests.support.harness import Host, LoopThread, launched
from tests.support.study_pages import SENTENCE, Sections


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "words.conllu").write_text(SENTENCE.format("", "", "") * 3, encoding="utf-8")
    roles = "\t_\t_", "\t_\tARG0", "\tsit.01\tV"
    (folder / "roles.conllu").write_text(SENTENCE.format(*roles) * 2, encoding="utf-8")
    (folder / "pairs_dev.tsv").write_text("sentence1\tsentence2\tlabel\n" + "a cat\ta dog\t1\nb\tc\t0\n" * 5, encoding="utf-8")
    (folder / "dev.tsv").write_text("text_a\tlabel\n" + "a cat\t1\na <b> dog\t0\n" * 5, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def classifier(loop: LoopThread, sorters: dict[str, Path]) -> Iterator[Host]:
    with launched(loop, model=[f"{name}={folder}" for name, folder in sorters.items()]) as running:
        yield running


@pytest.fixture(scope="module")
def copies(loop: LoopThread, checkpoints: dict[str, Path]) -> Iterator[Host]:
    with launched(loop, model=[f"{name}={checkpoints['bert']}" for name in ("bert", "copy")]) as running:
        yield running


def study(capsys: pytest.CaptureFixture[str], host: Host, *arguments: Any) -> tuple[int, str, str]:
    code = run(["study", "dark-secrets", "--target", host.target, *map(str, arguments)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.slow
def test_a_masked_lm_answers_all_sections(copies: Host, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.html"
    code, out, err = study(capsys, copies, "--model", "bert", "--fine-tuned", "copy", "--data", data, "--output", page)
    assert (code, err, out.splitlines()[-1]) == (0, "", f"wrote {page}")
    text = page.read_text(encoding="utf-8")
    found = Sections(text)
    assert list(found.texts) == ["4.1", "4.2", "4.3", "4.4", "4.5", "4.6", "papers"]
    papers = found.counts.pop("papers")
    assert papers["table"] == papers["img"] == 0
    assert all(counts["table"] and counts["img"] for counts in found.counts.values())
    assert "Mean cosine of all heads 1.000" in found.texts["4.3"]  # A model and itself.
    assert "pairs of" in found.texts["4.1"]
    for word in ("ARG0", "nsubj", "by chance", "99th percentile", "FrameNet"):
        assert word in found.texts["4.2"]
    assert "the first special token" in found.texts["4.5"]
    assert "accuracy on a task: neither model has labels" in found.texts["4.6"]
    assert "loss, lower is better" in found.texts["4.6"]
    pictures = re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', text)
    assert len(pictures) == sum(counts["img"] for counts in found.counts.values())
    assert all(b"</svg>" in base64.b64decode(picture) for picture in pictures)
    assert re.findall(r"(?:src|href)=\"(?!data:|#)", text) == []


@pytest.mark.slow
def test_a_classifier_is_measured_on_the_file_with_its_labels(
    classifier: Host, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    (data / "words.conllu").unlink()
    (data / "roles.conllu").unlink()
    (data / "names.tsv").write_text("text\tlabel\na\tno such label\n", encoding="utf-8")
    code, out, _ = study(capsys, classifier, "--data", data, "--output", page, "--dark", "--limit", "8")
    assert code == 0
    assert "left out: 4 sections, 4.2, 4.3, 4.4, 4.5; the page says why" in out
    found = Sections(page.read_text(encoding="utf-8"))
    assert "8 texts, untouched: accuracy" in found.texts["4.6"]
    assert "no treebank" in found.texts["4.4"]
    assert "Nothing was measured" in found.texts["4.2"]
    assert "the folder has neither a PropBank file nor a treebank" in found.texts["4.2"]


def test_bad_use_is_one_line(host: Host, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    page = tmp_path / "page.html"
    code, _, err = study(capsys, host, "--data", empty, "--output", page)
    assert code == 1
    assert "has nothing to study: put a treebank (.conllu)" in err
    code, _, err = study(capsys, host, "--data", data, "--model", "missing", "--output", page)
    assert (code, "missing" in err) == (1, True)
    assert not page.exists()
