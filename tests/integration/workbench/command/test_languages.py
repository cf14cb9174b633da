"""`bertscope retrieve` and `bertscope align`: what they print, draw and write is what the client gives."""

import json
from pathlib import Path

import bertscope
import bertscope_workbench as workbench
import pandas
import pytest
from bertscope_workbench.command.app import run

from tests.support.harness import Host

SOURCES = ["The cat sat on the mat .", "Nobody waited .", "Dogs bark at night ."]
TARGETS = ["A cat was on a mat .", "No one waited .", "At night dogs bark ."]
LONG = "the cat " * 200


@pytest.fixture
def folder(host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files of the tests, in which the commands run and call the server."""
    monkeypatch.setenv("BERTSCOPE_TARGET", host.target)
    monkeypatch.chdir(tmp_path)
    lines = {
        "one.txt": [f"{source} ||| {target}" for source, target in zip(SOURCES, TARGETS, strict=True)],
        "de": [*SOURCES, LONG],
        "en": [*TARGETS, "A cat ."],
        "long.txt": [f"{LONG} ||| a cat", "a cat ||| the cat"],
        "gold": ["1-1 0p0 6-6", "", "0-2 1-3 2-0 3-1"],
    }
    for name, content in lines.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in content), encoding="utf-8")
    return tmp_path


def test_retrieval_is_that_of_the_client(folder: Path, host: Host, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["retrieve", "de", "en", "--plot", "p.svg", "--dark", "--output", "rows.csv"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "3 pairs, models/bert" in printed and "left out: 1 text de, line 4: " in printed
    with bertscope.Client(host.target) as client:
        found = workbench.retrieve_sentences(client, SOURCES, TARGETS)
        uncentred = workbench.retrieve_sentences(client, SOURCES[:2], TARGETS[:2], layers=2, centred=False, pooling="first")
    rows = pandas.read_csv("rows.csv")
    pandas.testing.assert_frame_equal(rows, found.to_pandas(), check_dtype=False)
    assert (
        "translation is nearest" in (folder / "p.svg").read_text(encoding="utf-8") or (folder / "p.svg").stat().st_size > 5000
    )
    assert run(["retrieve", "one.txt", "--uncentred", "--pooling", "first", "--layer", "2", "--limit", "2", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["pairs"], told["centred"], told["pooling"], told["left_out"]) == ([0, 1], False, "first", [])
    assert told["nearest"] == {"forward": uncentred.forward.tolist(), "backward": uncentred.backward.tolist()}


def test_alignment_is_that_of_the_client(folder: Path, host: Host, capsys: pytest.CaptureFixture[str]) -> None:
    with bertscope.Client(host.target) as client:
        found = workbench.align_words(client, zip(SOURCES, TARGETS, strict=True), layer=2)
        more = workbench.align_words(client, zip(SOURCES, TARGETS, strict=True), layer=2, method="itermax")
    scores = workbench.score_alignments(more, workbench.read_gold_alignments("gold"))
    assert run(["align", "de", "en", "--layer", "2", "--output", "links.txt", "--plot", "p.png", "--pair", "2"]) == 0
    printed = capsys.readouterr().out
    assert "de, line 4: " in printed and f"3 pairs, {sum(len(one.links) for one in found)} links, layer 2" in printed
    assert (folder / "links.txt").read_text().splitlines() == [*(one.pharaoh for one in found), ""]
    assert (folder / "p.png").read_bytes().startswith(b"\x89PNG")
    options = ["--method", "itermax", "--gold", "gold", "--output", "links.csv", "--plot", "p.svg"]
    assert run(["align", "one.txt", "--layer", "2", *options, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [pair["pharaoh"] for pair in told["pairs"]] == [one.pharaoh for one in more]
    assert (told["scores"]["recall"], told["scores"]["found"]) == (scores.recall, scores.found)
    assert pandas.read_csv("links.csv").shape == more.to_pandas().shape


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("retrieve long.txt", "too few pairs are left; long.txt, line 1: "),
        ("align long.txt --layer 1 --limit 1", "every pair was left out; long.txt, line 1: "),
        ("align long.txt --layer 1 --plot p.png", "pair 0 was left out"),
        ("align one.txt --layer 1 --plot p.png --pair 3", "--pair 3: there are 3 pairs"),
        ("align one.txt --layer 99", "--layer: state 99 is out of range"),
    ],
)
def test_failures_are_one_line(folder: Path, capsys: pytest.CaptureFixture[str], arguments: str, said: str) -> None:
    assert run(arguments.split()) in (1, 2)
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1
