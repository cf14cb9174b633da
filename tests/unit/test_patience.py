"""Limits of time follow the machine, and a wait in vain says what was there instead."""

import os
import re
from pathlib import Path

import pytest

from tests.support import patience
from tests.support.patience import granted, wait_until


def test_limits_follow_the_speed_and_the_load_of_the_machine(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    for slowness, load, expected in ((1.0, 0.5, 10.0), (1.0, 8.0, 40.0), (3.0, 2.0, 30.0), (3.0, 6.0, 90.0)):
        monkeypatch.setattr(patience, "slowness", lambda slowness=slowness: slowness)
        monkeypatch.setattr(os, "getloadavg", lambda load=load: (load, 0.0, 0.0))
        assert granted(10) == expected


def test_a_wait_in_vain_says_what_was_there_instead():
    rows, least = ["a"], 3
    with pytest.raises(AssertionError, match=r"^waited 0 s in vain until rows come: least is 3; rows is \['a'\]"):
        wait_until(lambda: len(rows) >= least and rows[0] == "b", "rows come", 0)


def test_no_limit_is_written_as_a_number():
    """Shorter ones are what a test is about: it waits for them to pass."""
    written = re.compile(r"(?<![-.\w])timeout=\d\d(?! \*)|\.(?:wait|result|join)\(\d\d")
    tests = Path(__file__).parents[1]
    found = {path.name for path in tests.rglob("*.py") if written.search(path.read_text(encoding="utf-8"))}
    assert found <= {"triton_calls.py"}  # a program that runs in an environment of its own
