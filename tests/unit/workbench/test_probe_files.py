"""Labelled spans from files of words in columns and of spans as JSON Lines, and what is left out of them."""

from pathlib import Path

import bertscope
import pytest

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


def test_words_in_columns(tmp_path: Path) -> None:
    found = bertscope.read_probe_texts(write(tmp_path / "a.tsv", COLUMNS))
    assert [text.text for text in found] == ["The cat #", "Dogs"]
    assert [(name, found[0].text[start:end]) for name, start, end, *_ in found[0].labels] == [("DET", "The"), ("NOUN", "cat")]
    assert found.lines == [1, 7]
    assert ["a.tsv, line 5" in str(problem) for problem in found.problems] == [True]


def test_spans_as_json_lines(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", LINES)
    found = bertscope.read_probe_texts(path)
    assert [(text.text, text.labels[0][:4]) for text in found] == [
        ("The cat", ("NOUN", 4, 7, 0)),
        (("A dog", "It ran"), ("VERB", 3, 6, 1)),
    ]
    assert [str(problem).count(f"line {line}") for line, problem in zip((4, 5, 6, 7), found.problems, strict=True)] == [1] * 4
    spans = bertscope.read_span_texts(path)
    assert isinstance(spans[2], bertscope.UnlabelledText)
    assert (spans[2].spans, spans.lines) == (((2, 5, 0),), [1, 3, 7])
    assert len(bertscope.read_span_texts(path, limit=1)) == 1


@pytest.mark.parametrize(
    ("name", "content", "match"),
    [
        ("a.tsv", "The", "line 1"),
        ("a.jsonl", "", "has no text"),
        ("a.txt", "The cat", "must end with"),
        ("a.conllu", "", "sentence"),
    ],
)
def test_files_without_a_text(tmp_path: Path, name: str, content: str, match: str) -> None:
    with pytest.raises(bertscope.InvalidArgument, match=match):
        bertscope.read_probe_texts(write(tmp_path / name, content))
