"""One process against several: which cores each gets, and what the turns are summed up to."""

import json

import pytest

from benchmarks.host.calls import Answers
from benchmarks.lib.cores import split
from benchmarks.processes import command
from benchmarks.processes.command import Row, Turn


@pytest.mark.parametrize(
    ("cores", "server", "callers"),
    [
        ([], [], []),
        ([3], [], []),
        ([0, 1], [0], [1]),
        ([0, 1, 2, 3], [0, 1, 2], [3]),
        (list(range(8)), [0, 1, 2, 3, 4, 5], [6, 7]),
    ],
)
def test_server_and_callers_share_no_core(cores: list[int], server: list[int], callers: list[int]) -> None:
    assert split(cores) == (server, callers)


def turn(calls: int, seconds: float, by_server: list[float]) -> Turn:
    return Turn(Answers(latencies=[0.01] * calls, elapsed=seconds, cpu=0.002 * calls), by_server)


def test_sides_are_compared_round_by_round_with_the_first() -> None:
    row = Row(
        "m", 8, {"one": [turn(10, 1.0, [10]), turn(20, 1.0, [20])], "two": [turn(30, 2.0, [20, 10]), turn(80, 2.0, [40, 40])]}
    )
    one, two = row.summaries()
    assert (one.texts_per_second, one.ratio, one.busiest) == (8 * 15.0, 1.0, 1.0)
    assert (two.ratio, two.spread) == (1.75, (1.5, 2.0))
    assert two.busiest == pytest.approx((2 / 3 + 1 / 2) / 2)
    assert two.cpu_ms_per_call == pytest.approx(2.0)
    assert two.p50_ms == pytest.approx(10.0)


@pytest.mark.slow
@pytest.mark.timeout(300)  # three servers start, one after the other
def test_calls_are_spread_over_processes(capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--model", command.FIXED, "--texts", "1", "--callers", "8", "--rounds", "1", "--seconds", "0.3", "--json"]
    assert command.main(flags) == 0
    one, addresses, *_ = json.loads(capsys.readouterr().out)["rows"]
    assert (one["side"], one["busiest"]) == ("1 process", 1.0)
    assert addresses["busiest"] < 0.6
