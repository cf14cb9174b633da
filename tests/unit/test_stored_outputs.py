"""Texts that are stored for tests are each compared with something, and a difference is shown."""

from pathlib import Path

import pytest

from tests.support.stored_outputs import check, unused


def test_every_stored_text_is_used() -> None:
    assert unused(Path(__file__).parent) == []


def test_a_difference_is_shown_and_a_missing_text_fails(tmp_path: Path) -> None:
    place = tmp_path / "outputs" / "some" / "test.txt"
    with pytest.raises(AssertionError, match="is missing"):
        check(place, {"number": 1}, store=False)
    check(place, {"number": 1}, store=True)
    check(place, {"number": 1}, store=False)
    assert place.read_text() == "== number\n1\n"
    with pytest.raises(AssertionError, match=r"-1\n\+2"):
        check(place, {"number": 2}, store=False)
    assert unused(tmp_path) == [place]
