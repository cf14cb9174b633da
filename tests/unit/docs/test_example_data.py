"""The data that examples and benchmarks ship with: whole rows, of characters and not of their HTML names."""

from __future__ import annotations

import csv
import html
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
TABLES = sorted([*ROOT.glob("examples/*.tsv"), *ROOT.glob("benchmarks/lib/*.tsv")])
FILES = [*TABLES, *sorted(ROOT.glob("examples/*.txt"))]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_characters_are_no_html(path: Path) -> None:
    broken = [line for line in path.read_text(encoding="utf-8").splitlines() if html.unescape(line) != line]
    assert broken == []


@pytest.mark.parametrize("path", TABLES, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_every_row_is_whole(path: Path) -> None:
    header, *rows = csv.reader(path.read_text(encoding="utf-8").splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE)
    assert rows
    assert [row for row in rows if len(row) != len(header) or not all(cell.strip() == cell != "" for cell in row)] == []


def test_examples_state_the_facts_of_the_table() -> None:
    with (ROOT / "benchmarks" / "lib" / "capitals.tsv").open(encoding="utf-8") as file:
        known = {(row["capital"], row["country"]) for row in csv.DictReader(file, delimiter="\t")}
    with (ROOT / "examples" / "capitals.tsv").open(encoding="utf-8") as file:
        told = {
            (row["text"].partition(" is the capital of ")[0], row["answer"]) for row in csv.DictReader(file, delimiter="\t")
        }
    assert told <= known
