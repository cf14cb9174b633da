"""Scripts that run for a moment: every comparison is reported, every answer is right or the script would end there."""

import json

import pytest

from benchmarks.__main__ import main

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def found(capsys: pytest.CaptureFixture[str], script: str, *options: str) -> dict[str, object]:
    """What a script says to machines; it has found no fault."""
    assert main([script, *options, "--json"]) == 0
    said: dict[str, object] = json.loads(capsys.readouterr().out)["scripts"][script]
    return said


def test_small_calls_are_answered_beside_heavy_ones(capsys: pytest.CaptureFixture[str]) -> None:
    beside = found(capsys, "training", "--seconds", "1", "--only", "TrainProbe", "--serve", "--threads 1")["beside"]
    kinds = ("nothing", "TrainProbe, 512 hidden units", "TrainProbe, 300 classes", "TrainProbe, mixes")
    assert list(beside) == [*kinds, "16 x TrainProbe, 1.4 MB, late"]  # type: ignore[call-overload]


def test_the_host_is_measured_beside_the_echo(capsys: pytest.CaptureFixture[str]) -> None:
    said = found(capsys, "host", "--texts", "1", "8", "--callers", "2", "--rounds", "1", "--seconds", "0.2")
    rows = {row["what"].partition(",")[0]: row["sides"] for row in said["rows"]}  # type: ignore[attr-defined]
    assert rows.keys() == {"FillMask", "Classify", "ModelInfer", "ExtractAttention"}
    assert all(side["cpu_ms_per_call"] for sides in rows.values() for side in sides.values())
    assert not said["threads"] or said["threads"].keys() == {row["what"] for row in said["rows"]}  # type: ignore[attr-defined, index]
    clients = {call["call"] for call in said["clients"]}  # type: ignore[attr-defined]
    calls = ("FillMask", "Classify", "FillMask, all read")
    assert clients >= {f"{client}, {call}" for client in ("Client", "AsyncClient") for call in calls}


def test_calls_are_spread_over_processes(capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--model", "no model", "--texts", "1", "--callers", "8", "--rounds", "1", "--seconds", "0.3")
    assert main(["processes", *options]) == 0
    assert "1 process: the busiest server answered 1.00 of the calls" in (shown := capsys.readouterr().out)
    assert "2 processes, their addresses: the busiest server answered 0.5" in shown
