"""Labelled spans from files of words in columns and of spans as JSON Lines, and what is left out of them."""

from pathlib import Path

import bertscope_workbench as workbench
import pytest

from tests.support.stored_outputs import outcome

COLUMNS = """\
The\tDET
cat\tNOUN
#\t_

broken

Dogs\tNOUN
"""
LINES = """\
{"text": "The cat", "spans": [{"start": 4, "end": 7, "label": "NOUN"}]}

{"text": "A dog", "text_pair": "It ran", "spans": [{"start": 3, "end": 6, "segment": 1, "label": "VERB"}]}
{"text": "A dog"}
{"text": "A dog", "spans": [{"start": "2", "end": 5, "label": "NOUN"}]}
not JSON
{"text": "A dog", "spans": [{"start": 2, "end": 5}]}
"""


def write(path: Path, content: str) -> Path:
    path.write_text(content, encoding="utf-8")
    return path


def test_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stored) -> None:
    monkeypatch.chdir(tmp_path)
    columns = workbench.read_probe_texts(write(Path("a.tsv"), COLUMNS))
    path = write(Path("a.jsonl"), LINES)
    lines, spans = workbench.read_probe_texts(path), workbench.read_span_texts(path)
    empty = {"b.tsv": "The", "b.jsonl": "", "b.txt": "The cat", "b.conllu": ""}
    stored(
        columns=[list(columns), columns.lines, *columns.problems],
        lines=[list(lines), lines.lines, *lines.problems],
        spans=[list(spans), spans.lines, *spans.problems],
        limit=len(workbench.read_span_texts(path, limit=1)),
        refused=[outcome(lambda name=name: workbench.read_probe_texts(write(Path(name), empty[name]))) for name in empty],
    )
