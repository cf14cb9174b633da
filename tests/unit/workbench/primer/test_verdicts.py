"""Verdicts follow the interval, claims follow their rule, and chance is counted."""

import math
from typing import Any

import pytest
from bertscope_workbench.primer.claim import Claim, ClaimTest
from bertscope_workbench.primer.estimates import Measured
from bertscope_workbench.primer.verdicts import (
    DISAGREE,
    FAILS,
    HOLDS,
    NOT_ASKED,
    UNKNOWN,
    JudgedTest,
    Verdict,
    conclude,
    judge,
    multiplicity,
)


def one_test(name: str = "one", **changed: Any) -> ClaimTest:
    given: dict[str, Any] = {
        "measured": "a number", "unit": "share", "control": "chance", "holds": "above", "threshold": 0.1, "reason": "small",
        "measure": "none.none", "options": {}, "least_items": 20, "commands": (), "seconds": 1.0, "function": len,
    }  # fmt: skip
    return ClaimTest(name=name, **(given | changed))


def claim_of(rule: str = "all") -> Claim:
    return Claim(
        "c", "4", "knowledge", "title", "claim", "explained", "paper", (), (), True, "", rule, (one_test(),), ()  # type: ignore[arg-type]
    )  # fmt: skip


def measured(low: float, high: float, items: int = 50) -> Measured:
    middle = (low + high) / 2
    return Measured(middle, 0.0, middle, low, high, items, "made", "made")


@pytest.mark.parametrize(
    ("holds", "low", "high", "verdict"),
    [
        ("above", 0.2, 0.4, HOLDS),
        ("above", -0.2, 0.05, FAILS),
        ("above", 0.05, 0.3, UNKNOWN),
        ("below", 0.2, 0.4, FAILS),
        ("below", -0.2, 0.05, HOLDS),
        ("below", 0.05, 0.3, UNKNOWN),
        ("above", math.nan, math.nan, UNKNOWN),
    ],
)
def test_an_interval_settles_it(holds: str, low: float, high: float, verdict: Verdict) -> None:
    found = judge(one_test(holds=holds), measured(low, high))
    assert found.verdict == verdict
    assert bool(found.why) == (verdict == UNKNOWN)
    if verdict == HOLDS:
        assert found.p_value < 0.025
    elif not math.isnan(low):
        assert found.p_value > 0.025


@pytest.mark.parametrize(
    ("rule", "verdicts", "expected"),
    [
        ("all", [HOLDS, HOLDS], HOLDS),
        ("all", [HOLDS, FAILS], FAILS),
        ("all", [HOLDS, UNKNOWN], UNKNOWN),
        ("all", [HOLDS, NOT_ASKED], UNKNOWN),
        ("all", [NOT_ASKED, NOT_ASKED], NOT_ASKED),
        ("each", [HOLDS, FAILS], DISAGREE),
        ("each", [HOLDS, UNKNOWN], HOLDS),
        ("each", [FAILS, NOT_ASKED], FAILS),
        ("each", [UNKNOWN, UNKNOWN], UNKNOWN),
    ],
)
def test_a_claim_follows_its_rule(rule: str, verdicts: list[Verdict], expected: Verdict) -> None:
    tests = [JudgedTest(one_test(), verdict, None) for verdict in verdicts]
    assert conclude(claim_of(rule), tests).verdict == expected


def test_a_claim_that_holds_in_part_says_where() -> None:
    tests = [JudgedTest(one_test(name), verdict, None) for name, verdict in (("a", HOLDS), ("b", FAILS), ("c", HOLDS))]
    found = conclude(claim_of("each"), [*tests, JudgedTest(one_test("d"), NOT_ASKED, None)])
    assert (found.verdict, found.why) == ("holds in part", "2 of 3 tests hold: a, c")


def test_many_tests_are_corrected() -> None:
    strong, weak = measured(0.3, 0.5), measured(0.101, 0.4)
    tests = [judge(one_test(name), found) for name, found in (("strong", strong), ("weak", weak), ("none", measured(0, 0.2)))]
    found = multiplicity([conclude(claim_of(), tests)])
    assert (found.asked, found.hold, found.corrected) == (3, 2, 1)
    assert found.lost == ("c, weak",)
    assert found.by_chance == pytest.approx(3 * 0.025)
