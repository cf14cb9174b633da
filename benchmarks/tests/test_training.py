"""Small calls beside heavy ones, for a second each: every answer is right, cancelled work ends, and the table says so."""

import pytest

from benchmarks.soak import training


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_small_calls_are_answered_beside_heavy_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert training.main(["--seconds", "1", "--only", "TrainProbe", "--serve", "--threads 1"]) == 0
    printed = capsys.readouterr().out
    for kind in ("nothing", "TrainProbe, 512 hidden units", "TrainProbe, 300 classes", "16 x TrainProbe, 1.4 MB, late"):
        assert kind in " ".join(printed.split())
    assert "the process ended after" in printed
