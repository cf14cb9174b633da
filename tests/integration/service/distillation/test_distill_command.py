"""`distill_model` and `bertscope distill`, with the server in this process."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import bertscope
import pytest
from bertscope_workbench.command.app import run

from tests.support.harness import Host, LoopThread, launched
from tests.support.tiny import SENTENCES as TEXTS
from tests.support.tiny import write_checkpoint

SENTENCES = list(TEXTS)


@pytest.fixture(scope="module")
def school(loop: LoopThread, checkpoints: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    sorter = write_checkpoint("bert", tmp_path_factory.mktemp("more") / "sorter", labels=3)
    with launched(loop, model=[f"bert={checkpoints['bert']}", f"sorter={sorter}"]) as host:
        yield host
        host.unload_all_but(())


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.txt"
    path.write_text("\n".join(SENTENCES), encoding="utf-8")
    return path


def command(host: Host, *arguments: object) -> int:
    return run(["distill", "--target", host.target, *map(str, arguments)])


def test_both_clients_give_the_same_student(school: Host, tmp_path: Path) -> None:
    """All but what it is called and how long it took."""
    fields = {"steps": bertscope.keep_layers([0, 2]), "model": "bert", "epochs": 2, "seed": 5}
    seen: list[bertscope.DistillationProgress] = []
    with bertscope.Client(school.target) as client:
        first = client.distill_model(
            "first", SENTENCES, folder=str(tmp_path / "first"), dev=SENTENCES, test=SENTENCES, on_progress=seen.append, **fields
        )

    async def ask() -> bertscope.DistilledModel:
        async with bertscope.AsyncClient(school.target) as client:
            return await client.distill_model(
                "second", SENTENCES, folder=str(tmp_path / "second"), dev=SENTENCES, test=SENTENCES, **fields
            )

    second = asyncio.run(ask())
    assert first.records() == second.records()
    assert first.recoveries == second.recoveries
    assert [one.stage for one in seen][:: len(seen) - 1] == ["preparing", "saving"]
    assert first.to_pandas()["model"].tolist() == ["teacher", "untrained", "student"]
    assert first.model.name == "models/first" and first.provenance.model == "models/bert"


def test_the_command_prints_scores_and_what_came_back(
    school: Host, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = ["--dev", corpus, "--test", corpus, "--epochs", 20, "--rate", 0.003, "--seed", 3, "--batch-tokens", 40]
    assert command(school, "--model", "bert", "--steps", "layers=0+2", "--train", corpus, "--name", "taught",
                   "--folder", tmp_path / "taught", "--output", tmp_path / "scores.csv", *more) == 0  # fmt: skip
    shown = capsys.readouterr().out
    assert "KL from teacher, nats" in shown and "untrained" in shown and "models/taught" in shown
    assert "came back" in shown and "divergence" in shown
    assert "too small" not in shown
    rows = (tmp_path / "scores.csv").read_text(encoding="utf-8").splitlines()
    assert rows[0] == "model,accuracy,loss,agreement,divergence" and rows[1].startswith("teacher,")


def test_few_texts_tell_nothing(school: Host, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--train", corpus, "--name", "few", "--folder", tmp_path / "few", "--epochs", 1]
    assert command(school, "--model", "bert", "--steps", "layers=0+2", *given) == 0
    assert "a test of 1 text is too small to tell" in " ".join(capsys.readouterr().out.split())


def test_labels_come_from_a_column(school: Host, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "labels.tsv"
    table.write_text("text\tlabel\n" + "".join(f"{text}\tnegative\n" for text in SENTENCES), encoding="utf-8")
    given = ["--train", table, "--dev", table, "--test", table, "--labelled", "--hard", 1, "--epochs", 2]
    assert command(school, "--model", "sorter", "--name", "sorted", "--folder", tmp_path / "sorted", *given, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["student"]["answers"] == len(SENTENCES)
    assert found["method"]["papers"][0] == "hinton-etal-2015-distilling"


def test_a_step_is_named_as_it_was_written(
    school: Host, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--train", corpus, "--name", "small", "--folder", tmp_path / "small"]
    assert command(school, "--model", "bert", "--steps", "tokens=1/1/1/1", *given) == 1
    assert "--steps tokens=1/1/1/1 can't be trained" in capsys.readouterr().err
    assert command(school, "--model", "bert", "--steps", "layers", *given) == 2
