"""Verdicts follow the interval, claims follow their rule, and chance is counted."""

import math
from typing import Any

import numpy as np
import pytest
from bertscope_workbench.papers.claim import Claim, ClaimTest
from bertscope_workbench.papers.estimates import Measured, bootstrapped, paired, rounded, shares
from bertscope_workbench.papers.verdicts import (
    CHANCE,
    DISAGREE,
    FAILS,
    HOLDS,
    LEAST_CHANCE,
    NOT_ASKED,
    UNKNOWN,
    JudgedTest,
    Verdict,
    conclude,
    judge,
    multiplicity,
)
from bertscope_workbench.papers.wording import shown_chance
from scipy.stats import norm, t


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
        ("each", [HOLDS, HOLDS], HOLDS),
        ("each", [HOLDS, UNKNOWN], UNKNOWN),
        ("each", [FAILS, UNKNOWN], UNKNOWN),
        ("each", [HOLDS, FAILS, UNKNOWN], DISAGREE),
        ("each", [HOLDS, NOT_ASKED], HOLDS),
        ("each", [NOT_ASKED, NOT_ASKED], NOT_ASKED),
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


DRAWN = np.random.default_rng(5).gamma(2, size=24)
MEASURED = {
    "mean": paired(DRAWN, data="drawn"),
    "alike": paired([1.0] * 30, 0.5, bounds=(-0.5, 0.5), data="made"),
    "share": shares([True] * 31 + [False] * 9, 0.5, data="made"),
    "median": bootstrapped(lambda own: float(np.median(DRAWN[own])), len(DRAWN), data="drawn"),
}


@pytest.mark.parametrize(
    ("name", "holds"),
    [("mean", "above"), ("mean", "below"), ("alike", "above"), ("share", "above"), ("share", "below"), ("median", "above")],
)
def test_an_interval_that_touches_the_threshold_has_a_chance_of_2_5_percent(name: str, holds: str) -> None:
    found = rounded(MEASURED[name])
    end = found.low if holds == "above" else found.high
    judged = judge(one_test(holds=holds, threshold=end), found)
    assert judged.verdict == UNKNOWN
    assert judged.p_value == pytest.approx(CHANCE, rel=1e-4)
    middle = judge(one_test(holds=holds, threshold=found.difference), found)
    assert middle.p_value == pytest.approx(0.5, abs=1e-4)


def test_chances_have_the_tails_of_their_intervals() -> None:
    mean, share = MEASURED["mean"], MEASURED["share"]
    below = mean.low - 0.3
    error = (mean.difference - mean.low) / t.isf(CHANCE, 23)
    assert judge(one_test(threshold=below), mean).p_value == pytest.approx(
        t.sf((mean.difference - below) / error, 23), rel=1e-5
    )
    score = (31 / 40 - 0.55) / math.sqrt(0.55 * 0.45 / 40)
    assert judge(one_test(threshold=0.05), share).p_value == pytest.approx(norm.sf(score))


def test_no_chance_is_nothing() -> None:
    for found in (measured(0.999, 1.0, 10_000), shares([True] * 10_000, data="made")):
        assert judge(one_test(), found).p_value == LEAST_CHANCE
    assert [shown_chance(each) for each in (LEAST_CHANCE, 0.0001, 0.0123, 0.5, math.nan)] == [
        "p < 0.0001", "p = 0.0001", "p = 0.0123", "p = 0.5000", "",
    ]  # fmt: skip


def test_an_end_at_the_number_itself_says_only_on_which_side_it_lies() -> None:
    flat = Measured(0.4, 0.0, 0.4, 0.4, 0.6, 50, "made", "made")
    assert judge(one_test(), flat).p_value == CHANCE
    assert judge(one_test(threshold=0.5), flat).p_value == 1


def test_a_test_of_two_claims_counts_once() -> None:
    strong, weak = judge(one_test("strong"), measured(0.3, 0.5)), judge(one_test("weak"), measured(0.101, 0.4))
    other = judge(one_test("other", threshold=0.2), measured(0.3, 0.5))
    none = judge(one_test("none"), measured(0, 0.2))
    found = multiplicity([conclude(claim_of(), tests) for tests in ((strong, weak, none), (weak, other))])
    assert (found.asked, found.hold, found.corrected) == (4, 3, 2)
    assert found.lost == ("c, weak and c, weak",)
