"""The simulation of verdicts: rare on the threshold, right far from it; and what is said of runtimes and random models."""

from dataclasses import replace
from types import SimpleNamespace

from bertscope_workbench.papers.claim import Claim, ClaimTest
from bertscope_workbench.papers.claim_files import read_claims
from bertscope_workbench.papers.estimates import Measured, shares
from bertscope_workbench.papers.verdicts import UNKNOWN, conclude, judge

from benchmarks.serving.primer import differences, verdict_table, wrong_verdicts
from benchmarks.serving.random_claims import PANELS, Asked, faults, findings_table

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


def test_runtimes_that_differ_are_named() -> None:
    claims = [replace(CLAIM, name=name, verdict="all", tests=(above(0.1),)) for name in ("same", "other")]
    primer = primer_of(claims, [RIGHT, WRONG], [RIGHT, RIGHT])
    assert differences(primer) == ["other"]
    assert verdict_table(primer).row_count == len(claims) + 1


def test_random_models_that_satisfy_a_claim_are_named() -> None:
    claims = [
        replace(CLAIM, name=name, verdict="all", learned=learned, tests=(above(0.1),))
        for name, learned in (("trained", True), ("other", True), ("open", False))
    ]
    member, *_ = PANELS["choice"]
    (model,) = primer_of(claims, [RIGHT, WRONG, RIGHT]).models
    unsure = replace(model.claims[0], verdict=UNKNOWN)
    found = {"choice": [Asked(member, tuple(model.claims))], "check": [Asked(member, (unsure, *model.claims[1:]))]}
    assert faults(found) == [f"trained ({member.name})"]
    assert [[*column.cells] for column in findings_table(found, claims).columns[2:]] == [
        ["1 of 1", "0 of 1"], ["1", "0"], ["0 of 1", "0 of 1"], ["1", "0"],
    ]  # fmt: skip


def test_panels_have_no_model_in_common() -> None:
    names = [member.name for members in PANELS.values() for member in members]
    assert len(names) == len(set(names))
