"""Python lies only where it is meant to: tests and benchmarks know nothing of each other, and data folders hold no modules."""

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
IMPORTABLE = {"benchmarks", "tests", "tools"}
"""Packages at the root of the repository. The distributions lie in client/ and service/; examples are scripts."""


@cache
def modules(folder: Path) -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "*.py"], cwd=folder, capture_output=True, text=True, check=True).stdout
    return [folder / line for line in listed.splitlines() if (folder / line).is_file()]


@cache
def imported(path: Path) -> set[str]:
    """The full names of the modules that a module imports, or imports from."""
    return set(re.findall(r"^ *(?:from|import) ([\w.]+)", path.read_text(encoding="utf-8"), re.MULTILINE))


def test_only_real_packages_hold_python() -> None:
    folders = {path.relative_to(ROOT).parts[0] for path in modules(ROOT)}
    assert folders == IMPORTABLE | {"client", "workbench", "service", "examples"}
    assert {folder for folder in folders if (ROOT / folder / "__init__.py").is_file()} == IMPORTABLE


@pytest.mark.parametrize(
    ("folder", "unknown"),
    [("tests", "benchmarks"), ("benchmarks", "tests"), ("tools", "tests"), ("tools", "benchmarks")],
)
def test_what_a_folder_does_not_import(folder: str, unknown: str) -> None:
    found = modules(ROOT / folder)
    assert found
    assert [path for path in found if unknown in {name.partition(".")[0] for name in imported(path)}] == []


def test_helpers_lie_in_support_only() -> None:
    """What is no test and no fixture is imported from `tests.support`, and nothing from a test."""
    others = [path for path in modules(ROOT / "tests") if not path.name.startswith(("test_", "conftest", "__init__"))]
    assert [path for path in others if ROOT / "tests" / "support" not in path.parents] == []
    names = {name for path in modules(ROOT / "tests") for name in imported(path) if name.startswith("tests.")}
    assert [name for name in names if not name.startswith("tests.support")] == []
