"""The measures of tools.structure on a small package, where Python lies, and what the parts of the tree import."""

import re
import subprocess
import textwrap
from functools import cache
from pathlib import Path

import pytest

from tools.structure import budget, tree
from tools.structure.measures import Structure, forbidden_docstrings, measure

FILES = {
    "__init__.py": '"""A package."""',
    "top.py": "from house.upper import door, window",
    "upper/__init__.py": "",
    "upper/door.py": "from ..lower.floor import Board",
    "upper/window.py": """
        from typing import TYPE_CHECKING
        if TYPE_CHECKING:
            from house.top import anything
        else:
            import house.lower.floor
        """,
    "lower/__init__.py": "",
    "lower/floor.py": """
        def late():
            from house.lower import wall
            return wall
        """,
    "lower/wall.py": "import house.lower.floor as floor",
}


def build(folder: Path, files: dict[str, str]) -> Path:
    root = folder / "house"
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(textwrap.dedent(text), encoding="utf-8")
    return root


@pytest.fixture
def house(tmp_path: Path) -> Structure:
    return measure(build(tmp_path, FILES))


def test_rooms_and_their_arrows_are_counted(house: Structure) -> None:
    assert (house.rooms, house.arrows) == (3, 2)  # The root, upper and lower; the root imports upper, and upper lower.


def test_a_circle_is_one_floor(house: Structure) -> None:
    assert house.module_circles == [["house.lower.floor", "house.lower.wall"]]
    assert house.longest_chain == ["house.top", "house.upper.window", "house.lower.floor <-> house.lower.wall"]
    assert house.floors == 3


def test_imports_for_type_checkers_alone_do_not_count(house: Structure) -> None:
    assert house.package_circles == []
    assert house.package_floors == 3


def test_circles_between_packages_are_found_where_no_modules_are_in_one(tmp_path: Path) -> None:
    added = {"lower/stairs.py": "from house.upper.roof import tiles", "upper/roof.py": ""}
    found = measure(build(tmp_path, FILES | added))
    assert found.package_circles == [["house.lower", "house.upper"]]
    assert found.module_circles == [["house.lower.floor", "house.lower.wall"]]


@pytest.mark.parametrize(
    ("source", "opening"),
    [
        ('"""What a reader asks."""', "1: What a reader asks."),
        ('"""A page."""\n\ndef f():\n    """Who, then, reads it."""', "4: Who, then, reads it."),
        ('"""A page."""\n\nX = 1\n"""Of all pages."""', "4: Of all pages."),
        ('class A:\n    """Those."""', "2: Those."),
    ],
)
def test_forbidden_openings_are_found(tmp_path: Path, source: str, opening: str) -> None:
    [found] = forbidden_docstrings(build(tmp_path, {"page.py": source}))
    assert found.rpartition("page.py:")[2] == opening.rstrip(".") + "."


def test_a_budget_holds_what_grows_and_lowers_what_shrank(tmp_path: Path) -> None:
    file, old = tmp_path / "budget.toml", {"rooms": {"a": 120, "b": 40, "gone": 10}, "circles": {"client": 1}}
    file.write_text(budget.written(old), encoding="utf-8")
    assert budget.over(old, file) == []
    text = file.read_text(encoding="utf-8").replace('"a" = 150', '"a" = 300  # because of its tables')
    file.write_text(text, encoding="utf-8")
    new = {"rooms": {"a": 120, "b": 51, "new": 1}, "circles": {}}
    assert [line.partition(";")[0] for line in budget.over(new, file)] == [
        "rooms: a is 120 and its budget 300",
        "rooms: b is 51 and its budget 50",
        "rooms: gone is 0 and its budget 50",
        "rooms: new is 1 and its budget 0",
        "circles: client is 0 and its budget 1",
    ]
    budget.lower(new, file)
    assert '"a" = 150  # because of its tables\n' in file.read_text(encoding="utf-8")
    assert [line.partition(" is ")[0] for line in budget.over(new, file)] == ["rooms: b", "rooms: new"]


def test_the_tree_has_a_line_for_each_package() -> None:
    drawn = tree.drawn()
    for name in ("probing/", "distillation/", "papers/", "references/"):
        assert f"  {name}" in drawn


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
    ("folder", "unknown"), [("tests", "benchmarks"), ("benchmarks", "tests"), ("tools", "tests"), ("tools", "benchmarks")]
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
