"""The search of the benchmark finds what the bare passes have, or it would end there; and every comparison is reported."""

import json

import pytest

from benchmarks.serving import find


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
