"""Judges measurements: a verdict for each test and claim, and how many tests would pass by chance."""

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Literal

from bertscope.values.bootstrap import student_quantile, student_tail
from bertscope.values.display import record

from bertscope_workbench.papers.claim import Claim, ClaimTest
from bertscope_workbench.papers.estimates import CONFIDENCE, WILSON, Measured
from bertscope_workbench.papers.published.reproduced import Reproduced, ReproductionVerdict

Verdict = Literal["holds", "does not hold", "can't be told", "not asked", "holds in part"] | ReproductionVerdict
HOLDS: Verdict = "holds"
FAILS: Verdict = "does not hold"
UNKNOWN: Verdict = "can't be told"
NOT_ASKED: Verdict = "not asked"
DISAGREE: Verdict = "holds in part"
CHANCE = (1 - CONFIDENCE) / 2
"""The share of tests that hold by chance where the truth lies on the threshold: half of what intervals miss."""
LEAST_CHANCE = 1e-6
"""It stands for all smaller p-values, which a bootstrap of some thousand resamples can't tell apart: no p-value is 0."""


@record
class JudgedTest:
    """The answer to one test of a model, judged."""

    test: ClaimTest
    verdict: Verdict
    measured: Measured | None
    """None if it was not asked."""
    why: str = ""
    """Why it was not asked, or can't be told."""
    p_value: float = math.nan
    """One-sided: how likely so much is, or more, if the truth lies on the threshold: 2.5 % where the interval touches it. At
    least 1e-6; NaN without an interval."""
    seconds: float = 0.0
    """How long it took."""


@record
class JudgedClaim:
    """The verdict on one claim about a model."""

    claim: Claim
    verdict: Verdict
    tests: tuple[JudgedTest, ...]
    reproduced: Reproduced | None = None
    """The figures of its reproduction, if it has one."""

    @property
    def why(self) -> str:
        """Why it has no other verdict, or which tests hold; empty for one that is settled."""
        if self.verdict == DISAGREE:
            held = [each.test.name for each in self.tests if each.verdict == HOLDS]
            asked = sum(each.verdict != NOT_ASKED for each in self.tests)
            return f"{len(held)} of {asked} tests hold: {', '.join(held)}"
        reasons = [each.why for each in (*self.tests, self.reproduced) if each is not None and each.why]
        return "" if self.verdict not in (UNKNOWN, NOT_ASKED) else "; ".join(dict.fromkeys(reasons))


@record
class Multiplicity:
    """How far a table of many tests can be trusted as a whole."""

    asked: int
    """The tests that have an interval; one that several claims share counts once."""
    hold: int
    """The number of them that hold."""
    by_chance: float
    """The most that would hold by chance on average, if every truth lay exactly on its threshold."""
    corrected: int
    """The number that still holds if the chance that any one does so wrongly is to be 2.5 % (Holm 1979)."""
    lost: tuple[str, ...]
    """The tests that no longer hold then, "claim, test"; a shared one has the names of all its claims."""


def judge(test: ClaimTest, measured: Measured, seconds: float = 0.0) -> JudgedTest:
    """Returns the verdict on a measurement: the interval of 95 % must lie wholly on one side of the threshold."""
    p_value = chance_of(test, measured)
    if not math.isfinite(measured.low) or not math.isfinite(measured.high):
        return JudgedTest(test, UNKNOWN, measured, "too few items differ for an interval", p_value, seconds)
    if measured.items < test.least_items:
        why = f"{measured.items} independent items, and it takes {test.least_items}"
        return JudgedTest(test, UNKNOWN, measured, why, p_value, seconds)
    above, below = measured.low > test.threshold, measured.high < test.threshold
    if not above and not below:
        return JudgedTest(test, UNKNOWN, measured, "the interval crosses the threshold", p_value, seconds)
    return JudgedTest(test, HOLDS if above == (test.holds == "above") else FAILS, measured, "", p_value, seconds)


def chance_of(test: ClaimTest, measured: Measured) -> float:
    """Returns the one-sided p-value that goes with the interval: below 2.5 % where it lies on the claimed side.

    Of a share it is that of the score test, which Wilson's interval inverts. Of others it has the tails of Student's t with
    items - 1 degrees of freedom, as their intervals have, with the spread of the interval's end towards the threshold.
    """
    sign = 1 if test.holds == "above" else -1
    reach = sign * (measured.difference - (measured.low if sign > 0 else measured.high))
    beyond = sign * (measured.difference - test.threshold)
    if not math.isfinite(reach):
        return math.nan
    if measured.interval == WILSON:
        share = (measured.control or 0.0) + test.threshold
        error = math.sqrt(max(0.0, share * (1 - share)) / measured.items)
        chance = NormalDist().cdf(-beyond / error) if error else float(beyond <= 0)
    elif reach > 0:
        degrees = max(1, measured.items - 1)
        chance = student_tail(beyond / reach * student_quantile(degrees, 1 - CHANCE), degrees)
    else:  # An end at the number itself says no more than on which side it lies.
        chance = CHANCE if beyond > 0 else 1.0
    return max(chance, LEAST_CHANCE)


def conclude(claim: Claim, tests: Sequence[JudgedTest], reproduced: Reproduced | None = None) -> JudgedClaim:
    """Returns the verdict on a claim by the rule that it names.

    "all": tests are parts of one claim. It fails if one does, and holds if all do. "each": tests are several answers to one
    question. It holds or fails if all that were asked do, and in part if some hold and others fail. By either rule it is not
    asked if no test could be, and else can't be told. Optional tests count where they are asked. A claim
    without a test has the verdict of its reproduction.
    """
    if reproduced is not None and not tests:
        return JudgedClaim(claim, reproduced.verdict, (), reproduced)
    verdicts = [each.verdict for each in tests if each.verdict != NOT_ASKED or not each.test.optional]
    asked = {*verdicts} - {NOT_ASKED}
    counted = {*verdicts} if claim.verdict == "all" else asked
    verdict: Verdict = UNKNOWN
    if not asked:
        verdict = NOT_ASKED
    elif claim.verdict == "all" and FAILS in asked:
        verdict = FAILS
    elif {HOLDS, FAILS} <= asked:
        verdict = DISAGREE
    elif len(counted) == 1:
        (verdict,) = counted
    return JudgedClaim(claim, verdict, tuple(tests), reproduced)


def multiplicity(claims: Sequence[JudgedClaim]) -> Multiplicity:
    """Returns how many tests would hold by chance, and which still do when corrected for their number."""
    questions: dict[tuple[float, Verdict, str], list[str]] = {}
    for claim in claims:
        for each in claim.tests:
            if each.measured is not None and math.isfinite(each.p_value):
                test = each.test
                asked = repr((test.measure, test.options, test.holds, test.threshold, each.measured.difference))
                names = questions.setdefault((each.p_value, each.verdict, asked), [])
                names.append(f"{claim.claim.name}, {test.name}")
    tested = sorted((p_value, " and ".join(names), verdict) for (p_value, verdict, *_), names in questions.items())
    survivors: set[str] = set()
    for rank, (p_value, name, _) in enumerate(tested):
        if p_value >= CHANCE / (len(tested) - rank):
            break
        survivors.add(name)
    held = [name for _, name, verdict in tested if verdict == HOLDS]
    lost = tuple(name for name in held if name not in survivors)
    return Multiplicity(len(tested), len(held), len(tested) * CHANCE, len(held) - len(lost), lost)
