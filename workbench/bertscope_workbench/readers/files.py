"""Reads the items of a sweep from files: prompts, texts, pairs of sentences, texts with labels or values.

The suffix of a file's name determines its format: .tsv (tabs, no quoting, as in GLUE), .csv (commas, or semicolons if the names
of the columns have them between; quoting), .jsonl or .ndjson (a JSON object per line), .parquet; texts may also
be .txt (a text per line), questions SQuAD's .json. TSV and CSV begin with a line that names the columns. Files are UTF-8; lines
that are blank are skipped.

`columns` maps names to a file's columns: `{"text": "sentence1", "text_pair": "sentence2"}`. `limit` reads that many items
and ignores the rest. Every function raises OSError for a file that cannot be read, and InvalidArgument, naming the file
and the line, for one with other contents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Generic, NamedTuple, SupportsIndex, TypeVar

from bertscope.errors import invalid_argument
from bertscope.values import validation
from bertscope.values.display import record
from bertscope.values.validation import File, TextOrPair

from bertscope_workbench.readers.item_lists import Items, collected, made, no_line
from bertscope_workbench.readers.squad import SUFFIX, AskedQuestion, squad_questions
from bertscope_workbench.readers.table_rows import Broken, Cell, Line, Row, raised, read_lines

__all__ = [
    "INPUTS",
    "LABELLED",
    "LABEL_SETS",
    "PAIRS",
    "PROMPTS",
    "QUESTIONS",
    "RATED",
    "SIMILAR",
    "TEXTS",
    "ItemKind",
    "read_answered",
    "read_inputs",
    "read_label_sets",
    "read_labelled",
    "read_pairs",
    "read_prompts",
    "read_questions",
    "read_rated",
    "read_similar",
    "read_texts",
]

T = TypeVar("T")
Columns = Mapping[str, str] | None

ANSWER_SEPARATOR = "|"
MAX_DIGITS = 10
"""The most digits of an index; a longer value is a name."""


@record
class ItemKind(Generic[T]):
    """The columns of an item, and the function that makes it of their values."""

    required: tuple[str, ...]
    """Columns that every line must have."""
    optional: tuple[str, ...]
    """Columns that are read where they are."""
    item: Callable[[Row], T]
    """Returns the item. Raises InvalidArgument for values that can't be one."""


class AttributedRow(NamedTuple):
    """A text or a pair, and the columns of its line that name a number of it."""

    text: TextOrPair
    own: Mapping[str, Any]


def read_prompts(
    path: File, *, columns: Columns = None, limit: SupportsIndex | None = None
) -> Items[tuple[str, tuple[str, ...]]]:
    """Reads prompts and their gold answers, for `ClozePrompts`: columns "text" and "answer".

    Several answers have "|" between them; in JSON they may be a list. "answers" may replace "answer".
    """
    return read_items(path, PROMPTS, columns, limit)


def read_texts(path: File, *, columns: Columns = None, limit: SupportsIndex | None = None) -> Items[str]:
    """Reads texts, for `MaskedLmLoss` and `reference_texts`: column "text", or a .txt file."""
    return read_items(path, TEXTS, columns, limit)


def read_inputs(path: File, *, columns: Columns = None, limit: SupportsIndex | None = None) -> Items[TextOrPair]:
    """Reads texts or pairs of texts, for `Divergence` and `classify`: column "text", and "text_pair" if there is one."""
    return read_items(path, INPUTS, columns, limit)


def read_pairs(path: File, *, columns: Columns = None, limit: SupportsIndex | None = None) -> Items[tuple[str, str]]:
    """Reads pairs of sentences, for `MinimalPairs`: columns "good" and "bad", or BLiMP's "sentence_good" and "sentence_bad".

    `read_sets` reads them with their groups, for `compare_texts`.
    """
    return read_items(path, PAIRS, columns, limit)


def read_labelled(
    path: File, *, columns: Columns = None, limit: SupportsIndex | None = None
) -> Items[tuple[TextOrPair, str | int]]:
    """Reads labelled texts, for `LabelledTexts`: columns "text" and "label", and "text_pair" if there is one.

    A label that is a whole number is an index, as in GLUE's files; any other is a name. In JSON a number is an index and a
    string a name, whatever it looks like.
    """
    return read_items(path, LABELLED, columns, limit)


def read_questions(path: File, *, columns: Columns = None, limit: SupportsIndex | None = None) -> Items[tuple[str, str]]:
    """Reads questions and their passages, for `answer_questions`: columns "question" and "passage", or SQuAD's own .json."""
    if Path(path).suffix.lower() == SUFFIX:
        return _squad(path, columns, limit, lambda asked: asked[:2])
    return read_items(path, QUESTIONS, columns, limit)


def read_label_sets(
    path: File, *, columns: Columns = None, limit: SupportsIndex | None = None
) -> Items[tuple[TextOrPair, tuple[str, ...]]]:
    """Reads texts with the labels that hold for each, for `LabelSets`: columns "text" and "labels", and "text_pair" if there is
    one. Labels have "|" between them, and "|" alone is no label; in JSON they are a list."""
    return read_items(path, LABEL_SETS, columns, limit)


def read_rated(path: File, *, columns: Columns = None, limit: SupportsIndex | None = None) -> Items[tuple[TextOrPair, float]]:
    """Reads texts with gold values, for `RatedTexts`: columns "text" and "value", and "text_pair" if there is one."""
    return read_items(path, RATED, columns, limit)


def read_similar(path: File, *, columns: Columns = None, limit: SupportsIndex | None = None) -> Items[tuple[TextOrPair, float]]:
    """Reads pairs of texts with gold values of how alike they are, for `SimilarTexts`: columns "text", "text_pair", "value"."""
    return read_items(path, SIMILAR, columns, limit)


def read_answered(
    path: File, *, columns: Columns = None, limit: SupportsIndex | None = None
) -> Items[tuple[str, str, tuple[str | tuple[int, int], ...]]]:
    """Reads questions with their gold answers, for `LabelledQuestions`: columns "question", "passage" and "answer".

    Several answers have "|" between them; in JSON they may be a list. An empty list: the passage does not answer the question.
    SQuAD's own files (.json) have the places of answers, which are read; `lines` are the numbers of their questions.
    """
    if Path(path).suffix.lower() == SUFFIX:
        return _squad(path, columns, limit, lambda asked: asked)
    return read_items(path, ANSWERED, columns, limit)


def _squad(path: File, columns: Columns, limit: SupportsIndex | None, item: Callable[[AskedQuestion], T]) -> Items[T]:
    if columns:
        raise invalid_argument("columns", f"{path} has no columns; leave them out")
    asked = ((number, item(each)) for number, each in enumerate(squad_questions(Path(path)), start=1))
    return collected(Items[T](), asked, limit, Path(path), "has no question")


def read_items(
    path: File, kind: ItemKind[T], columns: Columns = None, limit: SupportsIndex | None = None, broken: Broken = raised
) -> Items[T]:
    """Reads an item from each line that has the columns of its kind. `broken` is told about lines that cannot be read."""
    path = Path(path)
    items = ((line.number, value) for line, value in item_lines(path, kind, columns, broken))
    return collected(Items[T](), items, limit, path, no_line(kind.required))


def item_lines(path: Path, kind: ItemKind[T], columns: Columns, broken: Broken) -> Iterator[tuple[Line, T]]:
    """Yields the items of `read_items` with their lines, as they are read; `broken` is told about lines that cannot be."""
    names = _names((*kind.required, *kind.optional), columns or {})
    lines = ((line.number, line) for line in read_lines(path, names, kind.required, broken))
    return (pair for _, pair in made(path, lines, lambda line: (line, kind.item(line.values)), broken))


def _names(known: tuple[str, ...], columns: Mapping[str, str]) -> dict[str, str]:
    """Returns the file's name of each column."""
    for name in columns:
        if name not in known:
            raise invalid_argument("columns", f"{name!r} is not among the columns that are read: {', '.join(known)}")
    return {name: validation.text("columns", columns.get(name, name)) for name in known}


def _text(row: Row, name: str) -> str:
    text = validation.text(name, row[name])
    if not text.strip():
        raise invalid_argument(name, "is empty; fill it in or take the line out")
    return str(text)


def _input(row: Row) -> TextOrPair:
    text = _text(row, "text")
    return (text, _text(row, "text_pair")) if "text_pair" in row else text


def _several(name: str, value: object) -> tuple[str, ...]:
    found = value.split(ANSWER_SEPARATOR) if isinstance(value, str) else value
    if not isinstance(found, list) or not found or not all(isinstance(each, str) and each.strip() for each in found):
        raise invalid_argument(name, 'must be a text, or several with "|" between them, none of them empty')
    return tuple(each.strip() for each in found)


def _label_names(value: object) -> tuple[str, ...]:
    if value == [] or (isinstance(value, str) and value.strip() == ANSWER_SEPARATOR):
        return ()
    return _several("labels", value)


def _answered(row: Row) -> tuple[str, str, tuple[str | tuple[int, int], ...]]:
    question, passage, answer = _text(row, "question"), _text(row, "passage"), row["answer"]
    answers = () if answer == [] else _several("answer", answer)
    if any(each not in passage for each in answers):
        raise invalid_argument("answer", "does not occur in the passage")
    return question, passage, answers


def _label(value: object) -> str | int:
    if isinstance(value, Cell):
        digits = value.strip().removeprefix("-")
        if not (digits.isascii() and digits.isdecimal() and len(digits) <= MAX_DIGITS):
            return value.strip()
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise invalid_argument("label", "must be a name or an index")
    if isinstance(value, int) and value < 0:
        raise invalid_argument(
            "label", f"{value} is not an index; GLUE's test files have no labels, take the development files"
        )
    return value if isinstance(value, int) else _text({"label": value}, "label")


def _sentence(row: Row) -> dict[str, Any]:
    found: dict[str, Any] = {name: _text(row, name) for name in ("text", "text_pair") if name in row}
    if "answer" in row:
        found["answers"] = list(_several("answer", row["answer"]))
    if "label" in row:
        found["label"] = str(_label(row["label"]))
    return found


def _value(value: object) -> float:
    if isinstance(value, Cell):
        try:
            value = float(value)
        except ValueError:
            raise invalid_argument("value", "must be a number") from None
    return validation.finite_number("value", value)


PROMPTS = ItemKind(("text", "answer"), (), lambda row: (_text(row, "text"), _several("answer", row["answer"])))
"""A prompt and its gold answers: columns "text" and "answer"."""
TEXTS = ItemKind(("text",), (), lambda row: _text(row, "text"))
"""A text: column "text"."""
CANDIDATES = ItemKind(
    ("text", "candidates"), ("text_pair",), lambda row: (_input(row), _several("candidates", row["candidates"]))
)
"""A text or a pair, and its own candidates: columns "text", "candidates", and "text_pair" if there is one."""
INPUTS = ItemKind(("text",), ("text_pair",), _input)
"""A text or a pair of texts: column "text", and "text_pair" if there is one."""
ATTRIBUTED = ItemKind(
    ("text",),
    ("text_pair", "answer", "other", "label"),
    lambda row: AttributedRow(_input(row), {name: row[name] for name in ("answer", "other", "label") if name in row}),
)
"""A text or a pair, and what names its number: columns "text", "text_pair", "answer" and "other", or "label"."""
SENTENCES = ItemKind(("text",), ("text_pair", "answer", "label"), _sentence)
"""A text or a pair, and what is right for it: columns "text", and "text_pair", "answer" and "label" where they are."""
PAIRS = ItemKind(("good", "bad"), (), lambda row: (_text(row, "good"), _text(row, "bad")))
"""A minimal pair: columns "good" and "bad"."""
QUESTIONS = ItemKind(("question", "passage"), (), lambda row: (_text(row, "question"), _text(row, "passage")))
"""A question and its passage: columns "question" and "passage"."""
ANSWERED = ItemKind(("question", "passage", "answer"), (), _answered)
"""A question, its passage and its gold answers: columns "question", "passage" and "answer"."""
TRANSLATIONS = ItemKind(("source", "target"), (), lambda row: (_text(row, "source"), _text(row, "target")))
"""A sentence and its translation: columns "source" and "target"."""
LABELLED = ItemKind(("text", "label"), ("text_pair",), lambda row: (_input(row), _label(row["label"])))
"""A labelled text: columns "text" and "label", and "text_pair" if there is one."""
LABEL_SETS = ItemKind(("text", "labels"), ("text_pair",), lambda row: (_input(row), _label_names(row["labels"])))
"""A text or a pair, and the labels that hold for it: columns "text" and "labels"."""
RATED = ItemKind(("text", "value"), ("text_pair",), lambda row: (_input(row), _value(row["value"])))
"""A text with its gold value: columns "text" and "value", and "text_pair" if there is one."""
SIMILAR = ItemKind(("text", "text_pair", "value"), (), lambda row: (_input(row), _value(row["value"])))
"""Two texts with the gold value of how alike they are: columns "text", "text_pair" and "value"."""
