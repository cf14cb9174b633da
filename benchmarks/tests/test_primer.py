"""The simulation of verdicts: rare on the threshold, right far from it; and what is said of runtimes and random models."""

from dataclasses import replace
from types import SimpleNamespace

from bertscope_workbench.primer.claim import Claim, ClaimTest, read_claims
from bertscope_workbench.primer.estimates import Measured, shares
from bertscope_workbench.primer.verdicts import conclude, judge

from benchmarks.serving.primer import findings, verdict_table, wrong_verdicts

SIMULATIONS = 100
CLAIM = read_claims()[0]


def above(threshold: float) -> ClaimTest:
    return replace(CLAIM.tests[0], holds="above", threshold=threshold, least_items=5)


RIGHT, WRONG = shares([True] * 45 + [False] * 5, 0.5, data="made"), shares([True] * 5 + [False] * 45, 0.5, data="made")


def primer_of(claims: list[Claim], *models: list[Measured]) -> SimpleNamespace:
    """What came of claims of one test each, by model."""
    judged = [
        SimpleNamespace(
            model=SimpleNamespace(name=f"models/{number}"),
            claims=[conclude(claim, [judge(claim.tests[0], each)]) for claim, each in zip(claims, measured, strict=True)],
        )
        for number, measured in enumerate(models)
    ]
    return SimpleNamespace(claims=claims, models=judged)


def test_verdicts_are_seldom_wrong() -> None:
    measured = shares([True] * 45 + [False] * 15, 0.3, data="made")
    holds, fails, other = wrong_verdicts(above(0.1), measured, SIMULATIONS)
    # Each should be 2.5 %: of 100, more than 9 % come once in a thousand times.
    assert holds < 0.1
    assert fails < 0.1
    assert holds + fails > 0
    assert other == 0


def test_faults_are_named() -> None:
    claims = [
        replace(CLAIM, name=name, verdict="all", learned=learned, tests=(above(0.1),))
        for name, learned in (("trained", True), ("other", True), ("open", False))
    ]
    primer = primer_of(claims, [RIGHT, WRONG, RIGHT], [RIGHT, RIGHT, RIGHT], [RIGHT, WRONG, RIGHT])
    lines, faulty = findings(primer)
    assert faulty
    assert lines[0].endswith(": other")
    assert lines[1].endswith(": trained")
    assert verdict_table(primer).row_count == len(claims) + 1
