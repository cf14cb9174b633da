"""Models of random weights satisfy no claim that takes training: this is what gives the other verdicts a meaning."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import bertscope
import pytest
from bertscope_workbench.papers.claim_files import read_claims
from bertscope_workbench.papers.estimates import Measured, shares
from bertscope_workbench.papers.verdicts import HOLDS, NOT_ASKED, UNKNOWN, JudgedClaim, conclude, judge

from benchmarks.lib.serving import serving
from benchmarks.serving.random_claims import PANELS, JudgedMember, Member, ask, by_tests, checkpoints, faults, findings

QUICK = [Member("bert", 3, 64, 0.15, 1, head=True), Member("distilbert", 3, 32, 0.2, 2, head=False)]
MORE = [
    Member("bert", 4, 64, 0.08, 3, head=True),
    Member("distilbert", 4, 32, 0.1, 4, head=False),
    Member("bert", 4, 64, 0.02, 11, head=True),
]
RIGHT, WRONG = shares([True] * 45 + [False] * 5, 0.5, data="made"), shares([True] * 5 + [False] * 45, 0.5, data="made")


def judged(name: str, measured: Measured, *, learned: bool) -> JudgedClaim:
    """A claim of one test: more than .1 above chance."""
    (claim, *_) = read_claims()
    test = replace(claim.tests[0], holds="above", threshold=0.1, least_items=5)
    return conclude(replace(claim, name=name, verdict="all", learned=learned, tests=(test,)), [judge(test, measured)])


def test_random_models_that_satisfy_a_claim_are_named() -> None:
    claims = (
        judged("trained", RIGHT, learned=True),
        judged("other", WRONG, learned=True),
        judged("open", RIGHT, learned=False),
    )
    member, *_ = PANELS["choice"]
    unsure = replace(claims[0], verdict=UNKNOWN)
    found = {"choice": [JudgedMember(member, claims)], "check": [JudgedMember(member, (unsure, *claims[1:]))]}
    assert faults(found) == [f"trained ({member.name})"]
    assert [row[2:] for row in findings(found, [each.claim for each in claims]).rows] == [
        ("1 of 1", "1", "0 of 1", "1"),
        ("0 of 1", "0", "0 of 1", "0"),
    ]


def test_panels_have_no_model_in_common() -> None:
    names = [member.name for members in PANELS.values() for member in members]
    assert len(names) == len(set(names))


def asked(folder: Path, members: Sequence[Member], only: Sequence[str] = ()) -> list[JudgedMember]:
    flags = [f"--model={each}" for each in checkpoints(members, folder)]
    with serving("--runtime=torch", *flags) as server, bertscope.Client(server.target) as client:
        return ask(client, members, read_claims(only=only))


@pytest.mark.slow
def test_what_mixing_of_tokens_brings_about_is_not_taken_for_training(tmp_path: Path) -> None:
    found = asked(tmp_path, QUICK, ["anisotropy-rises", "later-layers-are-context-specific"])
    assert not faults({"quick": found})
    headed, headless = ({each.claim.name: each for each in one.claims} for one in found)
    specific = headed["later-layers-are-context-specific"]
    assert (by_tests(specific), specific.verdict) == (HOLDS, UNKNOWN)
    assert "guessing among all pieces" in specific.why
    assert headless["anisotropy-rises"].verdict == HOLDS


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_no_claim_holds_that_takes_training(tmp_path: Path) -> None:
    found = asked(tmp_path, MORE)
    assert not faults({"more": found})
    assert all(each.verdict != NOT_ASKED or each.why for one in found for each in one.claims)
