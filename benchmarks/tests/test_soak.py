"""Models are made in parallel on a server of its own, on both runtimes, beside checked calls: two minutes of the soak."""

from __future__ import annotations

import pytest

from benchmarks.soak.command import run
from benchmarks.soak.run import Plan

SECONDS = 120.0


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_models_are_made_in_parallel_beside_checked_calls() -> None:
    outcome = run(Plan(SECONDS, callers=4, operators=3), [])
    assert outcome.tally.faults == []
    assert outcome.tally.clean
    counts = outcome.tally.counts
    made = {kind.partition(",")[0] for (kind, code), count in counts.items() if code == "OK" and count}
    assert made >= {"LoadModel", "CompressModel", "FillMask", "RankHeads", "ExtractAttention", "SweepHeads", "ModelInfer"}
    assert made >= {"DescribeAttention", "ScoreRelations", "ScoreFeatures", "ScoreTexts", "CompareTexts"}
