"""The second run of the numeric tests: under which limits, of which tests, and what it says."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from tools import capped_tests
from tools.capped_tests import LIMITS, ROOT, TESTS


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], dict[str, str]]]:
    """Commands and environments of the runs; those of SSE fail."""
    found: list[tuple[list[str], dict[str, str]]] = []

    def run(command: list[str], *, env: dict[str, str], **_: Any) -> subprocess.CompletedProcess[str]:
        found.append((command, env))
        return subprocess.CompletedProcess(command, 1 if env["ATEN_CPU_CAPABILITY"] == "default" else 0)

    monkeypatch.setattr(subprocess, "run", run)
    return found


def test_every_limit_has_tests_that_exist() -> None:
    assert TESTS.keys() == LIMITS.keys()
    missing = [path for paths in TESTS.values() for path in paths if not (ROOT / path).exists()]
    assert missing == []


def test_all_limits_run_and_one_failure_is_a_failure(
    runs: list[tuple[list[str], dict[str, str]]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert capped_tests.main([]) == 1
    for (command, environment), (name, limits) in zip(runs, LIMITS.items(), strict=True):
        assert limits.items() <= environment.items()
        assert command[-len(TESTS[name]) :] == list(TESTS[name])
    assert capsys.readouterr().out.splitlines()[-1].startswith("held to SSE: exit status 1 after ")


def test_one_limit_may_be_named(runs: list[tuple[list[str], dict[str, str]]]) -> None:
    assert capped_tests.main(["AVX2"]) == 0
    assert [environment["ONEDNN_MAX_CPU_ISA"] for _, environment in runs] == ["AVX2"]
