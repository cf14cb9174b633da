"""The simulation of verdicts: rare on the threshold, right far from it; and what is said of runtimes and random models."""

import numpy as np
import pytest
from bertscope_workbench.primer.estimates import paired, shares
from bertscope_workbench.primer.run import run_primer

from benchmarks.serving.primer import findings, simulation_table, verdict_table, wrong_verdicts
from tests.support.claims import CLAIMS, Hosted, a_claim, a_test, right, wrong

SIMULATIONS = 400


@pytest.mark.parametrize(
    "measured",
    [
        paired(np.random.default_rng(0).normal(1, 1, 50), 0.0, data="drawn"),
        shares([True] * 45 + [False] * 15, 0.3, data="made"),
    ],
    ids=["mean", "share"],
)
def test_verdicts_are_seldom_wrong(measured):
    holds, fails, other = wrong_verdicts(a_test(right), measured, SIMULATIONS)
    # Each should be 2.5 %: of 400, more than 6 % come once in ten thousand times.
    assert holds < 0.06
    assert fails < 0.06
    assert holds + fails > 0
    assert other == 0


def test_faults_are_named():
    claims = [
        a_claim([a_test(right)], "right"),
        a_claim([a_test(wrong)], "wrong"),
        a_claim([a_test(right)], "open", learned=False),
    ]
    primer = run_primer(Hosted("torch", "onnx", "random"), claims, models=["torch", "onnx", "random"])
    lines, faulty = findings(primer)
    assert faulty
    assert lines[0].endswith("none")
    assert lines[1].endswith(": right")
    table = verdict_table(primer)
    assert table.row_count == len(claims) + 1


def test_a_table_of_simulations_has_the_tests_with_items():
    primer = run_primer(Hosted("a"), CLAIMS)
    assert simulation_table(primer, 20).row_count == 3 + 2
