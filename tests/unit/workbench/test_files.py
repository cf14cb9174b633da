"""Files become what objectives take; a bad line is named by its file and number."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bertscope
import bertscope_workbench as workbench
import pandas
import pytest

from tests.support.stored_outputs import outcome


@pytest.fixture
def read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Writes a file in the working folder and returns what a reader says of it."""
    monkeypatch.chdir(tmp_path)

    def read_file(reader: Callable[..., Any], name: str, content: str | bytes, **more: Any) -> Any:
        Path(name).write_bytes(content.encode() if isinstance(content, str) else content)
        return outcome(lambda: list(reader(name, **more)))

    return read_file


PROMPTS = [
    ("p.tsv", "text\tanswer\nRome is in [MASK].\tItaly|Europe\nx [MASK]\ty\n"),
    ("p.tsv", "\ufefftext\tanswers\r\nRome is in [MASK].\tItaly | Europe\r\n\r\nx [MASK]\ty"),
    ("p.TSV", "id\tanswer\ttext\n1\tItaly|Europe\tRome is in [MASK].\n2\ty\tx [MASK]\n"),
    ("p.csv", 'text,answer\n"Rome is in [MASK].",Italy|Europe\nx [MASK],"y"\n'),
    ("p.csv", 'text;answer\n"Rome is in [MASK].";Italy|Europe\nx [MASK];"y"\n'),
    ("p.jsonl", '{"text": "Rome is in [MASK].", "answers": ["Italy", "Europe"]}\n\n{"text": "x [MASK]", "answer": "y"}\n'),
    ("p.ndjson", '{"answer": "Italy|Europe", "text": "Rome is in [MASK].", "n": 1}\n{"text": "x [MASK]", "answer": ["y"]}'),
]
BROKEN_PROMPTS = [
    ("p.tsv", ""),
    ("p.tsv", "sentence\tanswer\na\tb\n"),
    ("p.tsv", "text\nb\n"),
    ("p.tsv", "text\tanswer\ttext\n"),
    ("p.tsv", "text\tanswer\na\tb\n\nc\n"),
    ("p.tsv", "text\tanswer\na\tb\tc\n"),
    ("p.tsv", "text\tanswer\n \tb\n"),
    ("p.tsv", "text\tanswer\na\t\n"),
    ("p.tsv", "text\tanswer\na\tb||c\n"),
    ("p.tsv", b"text\tanswer\n\na\t\xff\n"),
    ("p.csv", "text,answer\na,b\nc\n"),
    ("p.csv", "text,answer\nA, b,c\n"),
    ("p.csv", 'text,answer\n"a\nb",c\nd\n'),
    ("p.csv", "text;answer\na;b\nc\n"),
    ("p.csv", "sentence;answer\na;b\n"),
    ("p.csv", '"text;answer\na;b\n'),
    ("p.csv", 'text,answer\na,b\n"open,c\nd,e\n'),
    ("p.csv", 'text,answer\n"a"b,c\n'),
    ("p.csv", 'text,answer\n"",c\n'),
    ("p.csv", b"text,answer\n\xff,c\n"),
    ("p.jsonl", '{"text": "a", "answer": "b"}\n{"text": \n'),
    ("p.jsonl", '\n["a", "b"]\n'),
    ("p.jsonl", '{"text": "a"}\n'),
    ("p.jsonl", '{"text": null, "answer": "b"}\n'),
    ("p.jsonl", '{"text": "", "answer": "b"}\n'),
    ("p.jsonl", '{"text": 5, "answer": "b"}\n'),
    ("p.jsonl", '{"text": "\\ud800", "answer": "b"}\n'),
    ("p.jsonl", '{"text": "a", "answer": []}\n'),
    ("p.jsonl", '{"text": "a", "answer": ["b", 1]}\n'),
    ("p.jsonl", '{"text": "a", "answer": 1}\n'),
    ("t.txt", "a\n"),
]


def test_prompts(read, stored) -> None:
    found = [read(workbench.read_prompts, *file) for file in PROMPTS]
    assert found == [[("Rome is in [MASK].", ("Italy", "Europe")), ("x [MASK]", ("y",))]] * len(PROMPTS)
    stored(broken=[read(workbench.read_prompts, *file) for file in BROKEN_PROMPTS])


def test_texts(read, stored) -> None:
    for value in read(workbench.read_texts, "t.tsv", "text\n12\n"):
        assert type(value) is str
    wrong = {"limit": 0}, {"limit": "1"}, {"columns": {"sentence": "text"}}, {"columns": {"text": 1}}
    stored(
        tabs_know_no_quotes=read(workbench.read_texts, "t.tsv", 'text\n"quoted" and "open\n'),
        commas_do=read(workbench.read_texts, "t.csv", 'text,n\n"a, ""b""",1\n"two\nlines",2\n'),
        lines=read(workbench.read_texts, "t.txt", "\ufefffirst, line\r\n\n  \nsecond\u2028line\n"),
        without_items=[read(workbench.read_texts, "t.tsv", content) for content in ("text\n", "text\n\n \n")],
        other_files=[read(workbench.read_texts, name, "text\na\n") for name in ("t", "t.xlsx", "tsv")],
        arguments=[read(workbench.read_texts, "t.tsv", "text\na\n", **given) for given in wrong],
        not_there=lambda: workbench.read_texts("none.txt"),
    )


GLUE = "index\tsentence1\tsentence2\tgold\n0\ta\tb\t1\n1\tc\td\t0\n2\tbroken\n"
LABELS = ["text\tlabel\na\t0\nb\tpositive\nc\t 1 \nd\t1.0\ne\t99999999999\n", "text\tlabel\na\t-1\n"]
LABELS_OF_JSON = [
    '{"text": "a", "label": 0}\n{"text": "b", "text_pair": "c", "label": "0"}\n',
    '{"text": "a", "label": true}\n',
    '{"text": "a", "label": 1.0}\n',
    '{"text": "a", "label": " "}\n',
    '{"text": "a", "label": 1, "text_pair": ""}\n',
]


def test_pairs_labels_and_values(read, stored) -> None:
    columns = {"text": "sentence1", "text_pair": "sentence2", "label": "gold"}
    inputs = '{"text": "a", "text_pair": null}\n{"text": "a", "text_pair": "b"}\n'
    sets = '{"text": "a", "labels": ["x", "y"]}\n{"text": "b", "text_pair": "c", "labels": []}'
    tables = "text\tlabels\na\tx|y\nb\t|\n", "text\tlabels\na\tx||y\n"
    values = "text\ttext_pair\tvalue\na\tb\t4.25\nc\td\t-1\n", "text\tvalue\na\tmuch\n", "text\tvalue\na\tnan\n"
    stored(
        pairs=[read(workbench.read_pairs, "p.tsv", "bad\tgood\nb\tg\n"), read(workbench.read_pairs, "t.txt", "a\n")],
        inputs=[
            read(workbench.read_inputs, "i.tsv", "text\ttext_pair\na\tb\n"),
            read(workbench.read_inputs, "i.jsonl", inputs),
            read(workbench.read_inputs, "i.txt", "a\n"),
        ],
        labels=[read(workbench.read_labelled, "l.tsv", content) for content in LABELS],
        labels_of_json=[read(workbench.read_labelled, "l.jsonl", content) for content in LABELS_OF_JSON],
        columns=read(workbench.read_labelled, "g.tsv", GLUE, columns=columns, limit=2),
        one_column=read(workbench.read_texts, "g.tsv", GLUE, columns={"text": "sentence2"}, limit=1),
        values=[read(workbench.read_rated, "r.tsv", content) for content in values],
        sets=[read(workbench.read_label_sets, "a.jsonl", sets), *(read(workbench.read_label_sets, "a.tsv", t) for t in tables)],
    )
    assert bertscope.LabelledTexts(workbench.read_labelled("g.tsv", columns=columns, limit=2))
    assert bertscope.MinimalPairs(workbench.read_pairs("p.tsv")) and bertscope.Divergence(workbench.read_inputs("i.tsv"))


def squad(*asked, context="Rome is in Italy. Rome is large."):
    found = [{"question": question, "id": "x", "answers": answers} for question, answers in asked]
    return json.dumps({"version": "v2.0", "data": [{"title": "t", "paragraphs": [{"context": context, "qas": found}]}]})


NOT_SQUAD = [
    "{",
    "[]",
    '{"data": [{"paragraphs": [3]}]}',
    '{"data": []}',
    squad(("Who?", [{"text": "Paris", "answer_start": 0}])),
    squad(("Who?", []), ("", [])),
    squad(("Who?", None)),
]


def test_questions_and_their_answers(read, stored) -> None:
    """Answers of SQuAD have their own places, each counted once; a question may have none."""
    second = {"text": "Rome", "answer_start": 18}
    content = squad(("What is large?", [second, second, {"text": "Rome", "answer_start": 0}]), ("Who?", []))
    table = "question\tpassage\tanswer\nwho\tb c\t{}\n"
    answered = workbench.read_answered
    stored(
        questions=read(workbench.read_questions, "q.tsv", "question\tpassage\na\tb c\n"),
        answered=[read(answered, "a.tsv", table.format(answer)) for answer in ("b|c", "d")],
        without_an_answer=read(answered, "a.jsonl", '{"question": "what", "passage": "b c", "answer": []}'),
        squad=read(answered, "dev-v2.0.json", content),
        questions_of_squad=read(workbench.read_questions, "dev-v2.0.json", content, limit=1),
        not_squad=[read(answered, "a.json", content) for content in NOT_SQUAD],
        columns=read(workbench.read_questions, "b.json", content, columns={"question": "q"}),
    )
    items = answered("dev-v2.0.json")
    assert items.lines == [1, 2]
    assert bertscope.LabelledQuestions(items, no_answer_threshold=0.0)


def test_broken_parquet_is_named(read, stored) -> None:
    pandas.DataFrame({"text": ["a", None]}).to_parquet("t.parquet")
    stored(
        said=[
            lambda: workbench.read_texts("t.parquet"),
            lambda: workbench.read_pairs("t.parquet"),
            read(workbench.read_texts, "u.parquet", "text"),
        ]
    )
