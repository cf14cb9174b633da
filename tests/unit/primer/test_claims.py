"""The shipped claims can be read, and a broken file says where and how to mend it."""

import re
from pathlib import Path

import pytest
from bertscope import InvalidArgument
from bertscope_workbench.primer.claim import read_claims
from bertscope_workbench.primer.measures import find_measure

ROOT = Path(__file__).resolve().parents[3]
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
        (BROKEN.replace("[[claim.test]]", "[[claim.tests]]"), "test"),
        (BROKEN.replace('holds = "above"', 'holds = "over"'), "holds"),
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
