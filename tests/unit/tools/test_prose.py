"""The check of docstrings' first words, on small trees made for it."""

from pathlib import Path

import pytest

from tools.prose import main

CLEAN = '''"""A page."""


def turn(page):
    """Turns a page; what follows is free."""
    return "Who reads"


SIZE = 1
"""Pages."""
'''


def write(folder: Path, text: str) -> Path:
    (folder / "page.py").write_text(text, encoding="utf-8")
    return folder


def test_docstrings_that_begin_with_subject_or_verb_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([write(tmp_path, CLEAN)]) == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("A page.", "Whose page this is.", 1),
        ("Turns a page", "Which page is turned", 5),
        ("Pages.", "whether there are pages.", 10),
    ],
)
def test_each_forbidden_opening_is_named_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, line: int
) -> None:
    assert main([write(tmp_path, CLEAN.replace(old, new))]) == 1
    first, last = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{tmp_path / 'page.py'}:{line}: {new.split()[0]} ")
    assert last.startswith("1 docstrings ")


def test_tests_and_generated_files_are_left_out(tmp_path: Path) -> None:
    forbidden = CLEAN.replace("A page.", "Of a page.")
    (tmp_path / "tests").mkdir()
    write(tmp_path / "tests", forbidden)
    write(tmp_path, "# Generated; do not edit.\n" + forbidden)
    assert main([tmp_path]) == 0


def test_every_folder_is_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "inside").mkdir()
    folders = [write(tmp_path / "inside", CLEAN), write(tmp_path, CLEAN.replace("A page.", "Of a page."))]
    assert main(folders[:1]) == 0
    assert main(folders) == 1
