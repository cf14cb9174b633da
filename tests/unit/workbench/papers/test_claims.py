"""The shipped claims can be read, and a broken file says where and how to mend it."""

import re
from pathlib import Path

import pytest
from bertscope import InvalidArgument
from bertscope_workbench.papers.claim_files import read_claims
from bertscope_workbench.papers.measures import find_measure

ROOT = Path(__file__).resolve().parents[4]
BROKEN = """
section = "4"
title = "Knowledge"
[[claim]]
name = "one"
title = "One"
claim = "It is so."
explained = "Something is asked."
paper = "Nobody 2020"
[[claim.test]]
name = "first"
measured = "a share"
unit = "share"
control = "chance"
holds = "above"
threshold = 0.1
reason = "small"
measure = "none.none"
"""


GOOD = BROKEN.replace("none.none", "attention.class_share") + 'options = {classes = ["vertical"]}\n'
MEASURED = 'attention.class_share"\noptions = {classes = ["vertical"]}'
CHANGES = [
    (("threshold = 0.1", "threshold = nan"), "threshold"),
    (("threshold = 0.1", "threshold = 0.1\nleast_items = 0"), "least_items"),
    (("threshold = 0.1", "threshold = 0.1\nseconds = -5"), "seconds"),
    (('classes = ["vertical"]', 'classes = "vertical"'), "a list of some"),
    (('classes = ["vertical"]', "classes = []"), "a list of some"),
    (('classes = ["vertical"]', 'classes = ["steep"]'), "each one of 'vertical'"),
    (("threshold = 0.1", f"threshold = {10**400}"), "threshold"),
    ((MEASURED, 'silencing.least_important"\noptions = {share = nan}'), "share"),
    ((MEASURED, 'silencing.least_important"\noptions = {share = 2}'), "0 to 1"),
    ((MEASURED, 'choices.right_share"\noptions = {items = "few"}'), "sizes"),
    (('classes = ["vertical"]', 'classes = ["vertical"], pairs = "false"'), "true or false"),
    (('classes = ["vertical"]', "pairs = true"), "needs classes"),
    (('classes = ["vertical"]', "other = 1"), "no option"),
    (('name = "one"', 'name = "a <b>"'), "no name"),
    (('name = "one"', 'name = "one"\nneeds = ["fly"]'), "no capability"),
    (('name = "one"', 'name = "one"\nfigure = "second"'), "no test"),
    (('name = "one"', 'name = "one"\nlanguages = ["English"]'), "ISO 639-1"),
    *(
        (("attention.class_share", name), "is no measure")
        for name in (
            "os.system",
            "__init__.find_measure",
            "attention._special",
            "attention.Measured",
            "probing.thirds_of",
            "no",
        )
    ),
]


def test_the_good_file_is_read(tmp_path: Path) -> None:
    for start in ("", "\ufeff"):
        (tmp_path / "own.toml").write_text(start + GOOD, "utf-8")
        assert len(read_claims([tmp_path / "own.toml"])) == 1
    (tmp_path / "own.toml").write_bytes(GOOD.replace("It is so.", "It is só.").encode("latin-1"))
    with pytest.raises(InvalidArgument, match="UTF-8"):
        read_claims([tmp_path / "own.toml"])
    test = GOOD[GOOD.index("[[claim.test]]") :]
    (tmp_path / "own.toml").write_text(GOOD + test)
    with pytest.raises(InvalidArgument, match="two tests"):
        read_claims([tmp_path / "own.toml"])


def test_claims_that_join_findings_hold_with_all_of_them() -> None:
    """The rule "each" is for several answers to one question."""
    assert {claim.name for claim in read_claims() if claim.verdict == "each"} == {
        "disabling-helps", "disabling-helps-a-task", "facts-above-constant", "head-classes", "heads-find-relations",
        "insensitive-to-malformed-input", "layers-matter-more-than-heads", "some-parts-hurt",
    }  # fmt: skip


def test_shipped_claims_are_whole() -> None:
    claims = read_claims()
    for claim in claims:
        assert claim.tests
        assert len({test.name for test in claim.tests}) == len(claim.tests), claim.name
        for test in claim.tests:
            assert all(command.startswith("bertscope ") for command in test.commands), claim.name


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (BROKEN, "measure"),
        *((GOOD.replace(*change), said) for change, said in CHANGES),
        (BROKEN.replace("[[claim.test]]", "[[claim.tests]]"), "test"),
        (BROKEN.replace('holds = "above"', 'holds = "over"'), "holds"),
        ('section = "4"\ntitle = "Knowledge"\nclaim = [1]\n', "[[claim]]"),
        ("section", "TOML"),
    ],
)
def test_a_broken_file_says_where(tmp_path: Path, text: str, expected: str) -> None:
    file = tmp_path / "own.toml"
    file.write_text(text)
    with pytest.raises(InvalidArgument) as raised:
        read_claims([file])
    assert expected in str(raised.value)
    assert "own.toml" in str(raised.value)


def test_an_unknown_name_lists_sections() -> None:
    with pytest.raises(InvalidArgument, match="sections"):
        read_claims(only=["no-such-claim"])


def test_the_documented_claim_can_be_read(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "primer.md").read_text("utf-8")
    (block,) = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    (tmp_path / "own.toml").write_text(block)
    (claim,) = read_claims([tmp_path / "own.toml"])
    assert claim.tests[0].function is find_measure("attention.special_mass")
    keys = set(re.findall(r"`(\w+)`", "\n".join(line for line in text.splitlines() if line.startswith("| `"))))
    assert {"name", "holds", "threshold", "measure", "least_items", "learned_reason"} <= keys
