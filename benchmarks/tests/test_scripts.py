"""The command line: every script is imported and its options are read; what is found is printed and written in one form."""

import asyncio
import json
import math
import threading
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import benchmarks.__main__ as command_line
from benchmarks.lib.background import Callers, beside
from benchmarks.lib.calls import closed_loop, percentiles
from benchmarks.lib.cores import split
from benchmarks.lib.measure import in_turn, milliseconds, per_second, share
from benchmarks.lib.report import Report, Table, document, of_claims
from benchmarks.lib.sides import compared, take_turns
from benchmarks.servers.processes import parts


@pytest.mark.parametrize("name", command_line.SCRIPTS)
def test_every_script_is_declared(name: str) -> None:
    script = command_line.module(name)
    (options,) = command_line.read([name], ["--json"]).values()
    assert options.json and options.output is None
    assert {one.name.removeprefix("--").replace("-", "_") for one in script.OPTIONS} <= vars(options).keys()
    assert callable(getattr(script, "claims", None) or script.report)
    assert not hasattr(script, "claims") or options.rounds


def test_several_scripts_share_rounds() -> None:
    found = command_line.read(["cloze", "sweep"], ["--rounds", "2"])
    assert [options.rounds for options in found.values()] == [2, 2]
    assert found["sweep"].texts == 4


def test_an_unknown_script_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command_line.main(["nothing"])
    assert "no script is named nothing; there are cloze," in capsys.readouterr().err


def test_reports_are_printed_and_written(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    found = Report([Table("Title", ("what", "ms"), [("one", "2"), ("other", "-")])], {"ms": math.nan}, ["remark"], ["wrong"])
    claims = [share("pair", [1.0, 3.0], [2.0, 2.0], milliseconds, "at most 1")]
    scripts: dict[str, Any] = {
        "load": SimpleNamespace(OPTIONS=(), report=lambda _: found),
        "cloze": SimpleNamespace(OPTIONS=(), claims=lambda _: claims),
    }
    monkeypatch.setattr(command_line, "module", scripts.__getitem__)
    path = tmp_path / "found.json"
    assert command_line.main(["load", "cloze", "--output", str(path)]) == 1
    shown = capsys.readouterr().out
    assert all(each in shown for each in ("Title", "remark", "FAULT wrong", "pair", "0.50 to 1.50", "PyTorch: "))
    written = json.loads(path.read_text())["scripts"]
    assert written["load"] == {"ms": None, "faults": ["wrong"]}
    assert written["cloze"]["claims"][0]["ratio"] == 1.0
    assert json.loads(document({"cloze": of_claims(claims, 1)}))["scripts"]["cloze"]["claims"] == written["cloze"]["claims"]


def test_sides_run_in_turn() -> None:
    order: list[str] = []
    pair = in_turn(lambda: order.append("ours"), lambda: order.append("theirs"), 2)
    assert order == ["ours", "theirs"] * 3
    assert len(pair.ours) == len(pair.theirs) == 2
    assert per_second(10, "texts")(0.1) == "100 texts/s"


def test_callers_of_a_closed_loop_are_compared_round_by_round() -> None:
    async def ask(_: int) -> None:
        await asyncio.sleep(0.001)

    answers = asyncio.run(closed_loop(ask, callers=2, seconds=0.05))
    assert len(answers.latencies) >= 2 and answers.rate > 0
    assert percentiles([answers], 50)[0] >= 1
    row = take_turns("cell", 8, {"one": lambda: answers, "two": lambda: answers}, rounds=2)
    (table,) = compared("title", [row]).tables
    assert [line[1] for line in table.rows] == ["one", "two"]
    assert table.rows[1][-2:] == ["1.00 (1.00 to 1.00)", ""]  # no server's CPU was measured


def test_callers_in_threads_are_counted() -> None:
    @contextmanager
    def caller() -> Any:
        def ask() -> None:
            if len(asked) % 2:
                asked.append(1)
                raise OSError("lost")
            asked.append(0)

        yield ask

    asked: list[int] = []
    with Callers([caller]) as callers:
        callers.wait_for_answers(2)
    assert callers.errors.keys() == {"OSError: lost"}
    assert len(callers.seconds) == callers.answered()[0] >= 2


def test_errors_of_work_in_the_background_are_raised() -> None:
    def work(begun: threading.Event, over: threading.Event) -> None:
        begun.set()
        over.wait()
        raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"), beside(work):
        pass


@pytest.mark.parametrize(
    ("cores", "server", "callers"),
    [([3], [], []), ([0, 1], [0], [1]), (list(range(8)), [0, 1, 2, 3, 4, 5], [6, 7])],
)
def test_server_and_callers_share_no_core(cores: list[int], server: list[int], callers: list[int]) -> None:
    assert split(cores) == (server, callers)


def test_processes_divide_the_cores() -> None:
    assert parts([0, 1, 2, 3, 4], 2) == [[0, 1], [2, 3, 4]]
    assert parts([0], 2) == [[0], [0]]
