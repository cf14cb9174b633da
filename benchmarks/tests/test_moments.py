"""Benchmarks that run for a moment: every comparison is reported, every answer is right or the benchmark would end there."""

import json

import pytest

from benchmarks.serving import find
from benchmarks.soak import training


@pytest.mark.slow
def test_all_comparisons_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    assert find.main(["--count", "12", "--rounds", "1", "--runtime", "torch", "--json"]) == 0
    claims = json.loads(capsys.readouterr().out)["claims"]
    assert [claim["what"].split(",")[0] for claim in claims] == [
        "find_contexts",
        "seconds of one search",
        "median of a small cloze call beside a search / alone",
        "p95 of a small cloze call beside a search / alone",
    ]
    assert all(claim["ratio"] > 0 for claim in claims)


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_small_calls_are_answered_beside_heavy_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert training.main(["--seconds", "1", "--only", "TrainProbe", "--serve", "--threads 1"]) == 0
    printed = capsys.readouterr().out
    for kind in ("nothing", "TrainProbe, 512 hidden units", "TrainProbe, 300 classes", "16 x TrainProbe, 1.4 MB, late"):
        assert kind in " ".join(printed.split())
    assert "the process ended after" in printed
