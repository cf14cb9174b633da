"""The data that examples and benchmarks ship with: whole rows, of characters and not of their HTML names."""

import csv
import html
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
TABLES = sorted([*ROOT.glob("examples/*.tsv"), *ROOT.glob("benchmarks/lib/*.tsv")])
FILES = [*TABLES, *sorted(ROOT.glob("examples/*.txt"))]


def test_rows_are_whole_and_characters_no_html() -> None:
    for path in FILES:
        assert html.unescape(text := path.read_text(encoding="utf-8")) == text, path
    for path in TABLES:
        header, *rows = csv.reader(path.read_text(encoding="utf-8").splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE)
        assert rows
        assert all(len(row) == len(header) and all(cell.strip() == cell != "" for cell in row) for row in rows), path


def test_examples_state_the_facts_of_the_table() -> None:
    with (ROOT / "benchmarks" / "lib" / "capitals.tsv").open(encoding="utf-8") as file:
        known = {(row["capital"], row["country"]) for row in csv.DictReader(file, delimiter="\t")}
    with (ROOT / "examples" / "capitals.tsv").open(encoding="utf-8") as file:
        told = {
            (row["text"].partition(" is the capital of ")[0], row["answer"]) for row in csv.DictReader(file, delimiter="\t")
        }
    assert told <= known
