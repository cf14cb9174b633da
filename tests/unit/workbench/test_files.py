"""Files become what objectives take; a bad line is named by its file and number."""

import json

import bertscope
import pandas
import pytest


@pytest.fixture
def write(tmp_path):
    def write_file(name: str, content: str | bytes):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write_file


PROMPTS = [("Rome is in [MASK].", ("Italy", "Europe")), ("x [MASK]", ("y",))]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("p.tsv", "text\tanswer\nRome is in [MASK].\tItaly|Europe\nx [MASK]\ty\n"),
        ("p.tsv", "\ufefftext\tanswers\r\nRome is in [MASK].\tItaly | Europe\r\n\r\nx [MASK]\ty"),
        ("p.TSV", "id\tanswer\ttext\n1\tItaly|Europe\tRome is in [MASK].\n\tx\n".replace("\tx\n", "2\ty\tx [MASK]\n")),
        ("p.csv", 'text,answer\n"Rome is in [MASK].",Italy|Europe\nx [MASK],"y"\n'),
        ("p.csv", 'text;answer\n"Rome is in [MASK].";Italy|Europe\nx [MASK];"y"\n'),
        ("p.jsonl", '{"text": "Rome is in [MASK].", "answers": ["Italy", "Europe"]}\n\n{"text": "x [MASK]", "answer": "y"}\n'),
        ("p.ndjson", '{"answer": "Italy|Europe", "text": "Rome is in [MASK].", "n": 1}\n{"text": "x [MASK]", "answer": ["y"]}'),
    ],
)
def test_prompts(write, name, content):
    assert bertscope.read_prompts(write(name, content)) == PROMPTS


def test_tab_separated_files_know_no_quotes(write):
    assert bertscope.read_texts(write("t.tsv", 'text\n"quoted" and "open\n')) == ['"quoted" and "open']


def test_comma_separated_files_do(write):
    path = write("t.csv", 'text,n\n"a, ""b""",1\n"two\nlines",2\n')
    assert bertscope.read_texts(path) == ['a, "b"', "two\nlines"]


def test_plain_text_is_a_text_per_line(write):
    assert bertscope.read_texts(write("t.txt", "\ufefffirst, line\r\n\n  \nsecond\u2028line\n")) == [
        "first, line",
        "second\u2028line",
    ]
    for read in (bertscope.read_prompts, bertscope.read_pairs, bertscope.read_labelled):
        with pytest.raises(bertscope.InvalidArgument, match=r"t\.txt: the name must end with \.tsv, \.csv, \.jsonl"):
            read(write("t.txt", "a\n"))


def test_rated_texts(write):
    assert bertscope.read_rated(write("r.tsv", "text\ttext_pair\tvalue\na\tb\t4.25\nc\td\t-1\n")) == [
        (("a", "b"), 4.25),
        (("c", "d"), -1.0),
    ]
    assert bertscope.read_rated(write("r.jsonl", '{"text": "a", "value": 2}\n')) == [("a", 2.0)]
    for name, content in (("bad.tsv", "text\tvalue\na\tmuch\n"), ("nan.tsv", "text\tvalue\na\tnan\n")):
        with pytest.raises(bertscope.InvalidArgument, match=r"line 2.*value"):
            bertscope.read_rated(write(name, content))


def test_texts_are_plain_strings(write):
    (text,) = bertscope.read_texts(write("t.tsv", "text\n12\n"))
    assert type(text) is str


def test_pairs_of_sentences(write):
    assert bertscope.read_pairs(write("p.tsv", "bad\tgood\nb\tg\n")) == [("g", "b")]


def test_questions_and_their_answers(write):
    assert bertscope.read_questions(write("q.tsv", "question\tpassage\na\tb c\n")) == [("a", "b c")]
    assert bertscope.read_answered(write("a.tsv", "question\tpassage\tanswer\nwho\tb c\tb|c\n")) == [("who", "b c", ("b", "c"))]
    none = '{"question": "what", "passage": "b c", "answer": []}'
    assert bertscope.read_answered(write("a.jsonl", none)) == [("what", "b c", ())]
    with pytest.raises(bertscope.InvalidArgument, match="answer: does not occur in the passage"):
        bertscope.read_answered(write("n.tsv", "question\tpassage\tanswer\nwho\tb c\td\n"))


def test_inputs(write):
    assert bertscope.read_inputs(write("i.tsv", "text\ttext_pair\na\tb\n")) == [("a", "b")]
    lines = '{"text": "a", "text_pair": null}\n{"text": "a", "text_pair": "b"}\n'
    assert bertscope.read_inputs(write("i.jsonl", lines)) == ["a", ("a", "b")]
    assert bertscope.read_inputs(write("i.txt", "a\n")) == ["a"]


def test_labels_of_tables_are_indices_where_they_are_numbers(write):
    path = write("l.tsv", "sentence\tlabel\na\t0\nb\tpositive\nc\t 1 \nd\t1.0\ne\t99999999999\n")
    found = bertscope.read_labelled(path, columns={"text": "sentence"})
    assert found == [("a", 0), ("b", "positive"), ("c", 1), ("d", "1.0"), ("e", "99999999999")]


def test_labels_of_json_are_what_they_are(write):
    path = write("l.jsonl", '{"text": "a", "label": 0}\n{"text": "b", "text_pair": "c", "label": "0"}\n')
    assert bertscope.read_labelled(path) == [("a", 0), (("b", "c"), "0")]


def test_columns_and_limit(write):
    path = write("g.tsv", "index\tsentence1\tsentence2\tgold\n0\ta\tb\t1\n1\tc\td\t0\n2\tbroken\n")
    columns = {"text": "sentence1", "text_pair": "sentence2", "label": "gold"}
    assert bertscope.read_labelled(path, columns=columns, limit=2) == [(("a", "b"), 1), (("c", "d"), 0)]
    assert bertscope.read_texts(path, columns={"text": "sentence2"}, limit=1) == ["b"]


def test_they_are_what_objectives_take(write):
    bertscope.ClozePrompts(bertscope.read_prompts(write("a.tsv", "text\tanswer\na\tb\n")))
    bertscope.LabelledTexts(bertscope.read_labelled(write("b.tsv", "text\tlabel\na\t1\n")))
    bertscope.MinimalPairs(bertscope.read_pairs(write("c.tsv", "good\tbad\na\tb\n")))
    bertscope.Divergence(bertscope.read_inputs(write("d.tsv", "text\tbad\na\tb\n")))


@pytest.mark.parametrize(
    ("name", "content", "line", "problem"),
    [
        ("p.tsv", "", 1, "has no column 'text'; it has none"),
        ("p.tsv", "sentence\tanswer\na\tb\n", 1, "has no column 'text'; it has 'sentence', 'answer'"),
        ("p.tsv", "text\nb\n", 1, "has no column 'answer'; it has 'text'"),
        ("p.tsv", "text\tanswer\ttext\n", 1, "names the column 'text' twice"),
        ("p.tsv", "text\tanswer\na\tb\n\nc\n", 4, "has 1 columns where the first line names 2; put a tab between them"),
        ("p.tsv", "text\tanswer\na\tb\tc\n", 2, "has 3 columns where the first line names 2"),
        ("p.tsv", "text\tanswer\n \tb\n", 2, "text: is empty; fill it in or take the line out"),
        ("p.tsv", "text\tanswer\na\t\n", 2, "answer: is empty"),
        ("p.tsv", "text\tanswer\n\t\n", 2, "text: is empty"),
        ("p.tsv", "text\tanswer\na\tb||c\n", 2, "answer: must be a text, or several"),
        ("p.tsv", b"text\tanswer\n\na\t\xff\n", 3, "is not UTF-8 (invalid start byte); save the file as UTF-8"),
        ("p.csv", "text,answer\na,b\nc\n", 3, "has 1 columns where the first line names 2; put a comma between them"),
        (
            "p.csv",
            "text,answer\nA, b,c\n",
            2,
            "has 3 columns where the first line names 2; put a comma between them, and quotes",
        ),
        ("p.csv", 'text,answer\n"a\nb",c\nd\n', 4, "has 1 columns"),
        ("p.csv", "text;answer\na;b\nc\n", 3, "has 1 columns where the first line names 2; put a semicolon between them"),
        ("p.csv", "sentence;answer\na;b\n", 1, "has no column 'text'; it has 'sentence', 'answer'"),
        ("p.csv", '"text;answer\na;b\n', 1, "is not CSV"),
        ("p.csv", 'text,answer\na,b\n"open,c\nd,e\n', 3, "is not CSV"),
        ("p.csv", 'text,answer\n"a"b,c\n', 2, "is not CSV"),
        ("p.csv", 'text,answer\n"",c\n', 2, "text: is empty"),
        ("p.csv", b"text,answer\n\xff,c\n", 2, "is not UTF-8"),
        ("p.jsonl", '{"text": "a", "answer": "b"}\n{"text": \n', 2, "is not JSON"),
        ("p.jsonl", '\n["a", "b"]\n', 2, 'is not a JSON object; write {"text": ..., "answer": ...}'),
        ("p.jsonl", '{"text": "a"}\n', 1, "has no key 'answer'; it has 'text'"),
        ("p.jsonl", '{"text": null, "answer": "b"}\n', 1, "has no key 'text'; it has 'answer'"),
        ("p.jsonl", '{"text": "", "answer": "b"}\n', 1, "text: is empty"),
        ("p.jsonl", '{"text": 5, "answer": "b"}\n', 1, "text: must be a string, not int"),
        ("p.jsonl", '{"text": "\\ud800", "answer": "b"}\n', 1, "text: cannot be encoded"),
        ("p.jsonl", '{"text": "a", "answer": []}\n', 1, "answer: must be"),
        ("p.jsonl", '{"text": "a", "answer": ["b", 1]}\n', 1, "answer: must be"),
        ("p.jsonl", '{"text": "a", "answer": 1}\n', 1, "answer: must be"),
    ],
)
def test_a_bad_line_is_named(write, name, content, line, problem):
    path = write(name, content)
    with pytest.raises(bertscope.InvalidArgument) as caught:
        bertscope.read_prompts(path)
    assert str(caught.value).startswith(f"{path}, line {line}: {problem}")


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("l.tsv", "text\tlabel\na\t-1\n", "label: -1 is not an index; GLUE's test files"),
        ("l.jsonl", '{"text": "a", "label": true}\n', "label: must be a name or an index"),
        ("l.jsonl", '{"text": "a", "label": 1.0}\n', "label: must be a name or an index"),
        ("l.jsonl", '{"text": "a", "label": " "}\n', "label: is empty"),
        ("l.jsonl", '{"text": "a", "label": 1, "text_pair": ""}\n', "text_pair: is empty"),
    ],
)
def test_a_bad_label_is_named(write, name, content, problem):
    with pytest.raises(bertscope.InvalidArgument) as caught:
        bertscope.read_labelled(write(name, content))
    assert f", line {content.count(chr(10))}: {problem}" in str(caught.value)


@pytest.mark.parametrize("content", ["text\n", "text\n\n \n"])
def test_a_file_without_items_is_refused(write, content):
    with pytest.raises(bertscope.InvalidArgument, match=r"t\.tsv: has no line to read"):
        bertscope.read_texts(write("t.tsv", content))


@pytest.mark.parametrize("name", ["t", "t.xlsx", "tsv"])
def test_other_files_are_refused(write, name):
    with pytest.raises(bertscope.InvalidArgument, match=r"must end with \.tsv, \.csv, \.jsonl, \.ndjson, \.parquet, \.txt"):
        bertscope.read_texts(write(name, "text\na\n"))


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"limit": 0}, "limit"),
        ({"limit": "1"}, "limit"),
        ({"columns": {"sentence": "text"}}, "columns"),
        ({"columns": {"text": 1}}, "columns"),
    ],
)
def test_arguments_that_mean_nothing_are_refused(write, arguments, field):
    with pytest.raises(bertscope.InvalidArgument, match=f"^{field}: "):
        bertscope.read_texts(write("t.tsv", "text\na\n"), **arguments)


def test_a_file_that_is_not_there_is_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        bertscope.read_texts(tmp_path / "t.txt")


@pytest.mark.parametrize(
    ("read", "columns"),
    [
        (bertscope.read_texts, {"text": ["a", "b"]}),
        (bertscope.read_prompts, {"text": ["a", "b"], "answers": [["x", "y"], ["z"]]}),
        (bertscope.read_inputs, {"text": ["a", "b"], "text_pair": [None, "c"]}),
        (bertscope.read_pairs, {"good": ["a", "b"], "bad": ["c", "d"]}),
        (bertscope.read_labelled, {"text": ["a", "b"], "label": [1, 0]}),
    ],
)
def test_parquet_is_read_as_json_lines_are(tmp_path, write, read, columns):
    frame = pandas.DataFrame(columns)
    frame.to_parquet(tmp_path / "t.parquet")
    lines = [json.dumps({name: values[row] for name, values in columns.items()}) for row in range(2)]
    found = read(tmp_path / "t.parquet")
    assert found == read(write("t.jsonl", "\n".join(lines)))
    assert found.lines == [1, 2]


def test_broken_parquet_is_named(tmp_path, write):
    pandas.DataFrame({"text": ["a", None]}).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(bertscope.InvalidArgument, match=r"t\.parquet, line 2: has no value in the column 'text'"):
        bertscope.read_texts(tmp_path / "t.parquet")
    with pytest.raises(bertscope.InvalidArgument, match="line 1: has no column 'good'; it has 'text'"):
        bertscope.read_pairs(tmp_path / "t.parquet")
    with pytest.raises(bertscope.InvalidArgument, match="is not a Parquet file"):
        bertscope.read_texts(write("u.parquet", "text"))


def test_label_sets(write):
    expected = [("a", ("x", "y")), (("b", "c"), ())]
    lines = '{"text": "a", "labels": ["x", "y"]}\n{"text": "b", "text_pair": "c", "labels": []}'
    assert bertscope.read_label_sets(write("a.jsonl", lines)) == expected
    assert bertscope.read_label_sets(write("a.tsv", "text\tlabels\na\tx|y\nb\t|\n")) == [("a", ("x", "y")), ("b", ())]
    with pytest.raises(bertscope.InvalidArgument, match="line 2"):
        bertscope.read_label_sets(write("b.tsv", "text\tlabels\na\tx||y\n"))


def squad(*asked, context="Rome is in Italy. Rome is large."):
    found = [{"question": question, "id": "x", "answers": answers} for question, answers in asked]
    return json.dumps({"version": "v2.0", "data": [{"title": "t", "paragraphs": [{"context": context, "qas": found}]}]})


def test_questions_of_squad(write):
    """Answers have their own places, each counted once; a question may have none."""
    second = {"text": "Rome", "answer_start": 18}
    content = squad(("What is large?", [second, second, {"text": "Rome", "answer_start": 0}]), ("Who?", []))
    path = write("dev-v2.0.json", content)
    passage = "Rome is in Italy. Rome is large."
    items = bertscope.read_answered(path)
    assert items == [("What is large?", passage, ((18, 22), (0, 4))), ("Who?", passage, ())]
    assert items.lines == [1, 2]
    assert bertscope.LabelledQuestions(items, no_answer_threshold=0.0)
    assert bertscope.read_questions(path, limit=1) == [("What is large?", passage)]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{", "is not JSON"),
        ("[]", "has no list 'data'"),
        ('{"data": [{"paragraphs": [3]}]}', "has no list 'qas'"),
        ('{"data": []}', "has no question"),
        (squad(("Who?", [{"text": "Paris", "answer_start": 0}])), "question 1: has an answer that is not in its context"),
        (squad(("Who?", []), ("", [])), "question 2: has no question or no context"),
        (squad(("Who?", None)), "has no list 'answers'"),
    ],
)
def test_files_that_are_not_squads(write, content, problem):
    with pytest.raises(bertscope.InvalidArgument, match=problem) as caught:
        bertscope.read_answered(write("a.json", content))
    assert "a.json" in str(caught.value)
    with pytest.raises(bertscope.InvalidArgument, match="has no columns"):
        bertscope.read_questions(write("b.json", content), columns={"question": "q"})
