"""Reads the files that examples/finetune.py learns from. Every function raises ValueError, naming the file and the line."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import bertscope_workbench
from bertscope_service.analyses.objectives.answered import AnsweredQuery, LabelledQuestion
from bertscope_service.analyses.passages import PassageQuestion

SEPARATOR = "|"
"""Stands between the labels of a text that has several."""


class Word(NamedTuple):
    """A word of a text: its first code point, the one past its last, and the index of its label."""

    start: int
    end: int
    label: int


class Example(NamedTuple):
    """A text or a pair, and what is learned of it: the index of a label, a value, a set of labels, or those of its words."""

    texts: tuple[str, ...]
    target: int | float | frozenset[int] | tuple[Word, ...]


def read_rows(
    path: Path, columns: Sequence[str], label: str, target: Callable[[str], int | float | frozenset[int]]
) -> list[Example]:
    """Returns the examples of a TSV file; `target` makes what is learned of the column `label`, or raises ValueError."""
    try:
        lines = path.read_text(encoding="utf-8-sig").rstrip("\n").split("\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8: {error}") from error
    header, *rows = [line.split("\t") for line in lines]
    for column in (*columns, label):
        if column not in header:
            raise ValueError(f"{path} has no column {column!r}; its columns are {', '.join(header)}")
    examples = []
    for number, cells in enumerate(rows, start=2):
        if len(cells) != len(header):
            raise ValueError(f"{path} line {number} has {len(cells)} columns, the first line has {len(header)}")
        row = dict(zip(header, cells, strict=True))
        try:
            examples.append(Example(tuple(row[column] for column in columns), target(row[label])))
        except ValueError as error:
            raise ValueError(f"{path} line {number}: {error}") from None
    if not examples:
        raise ValueError(f"{path} has no examples, only the names of its columns")
    return examples


def index_of(names: Sequence[str]) -> Callable[[str], int]:
    """Returns the function that finds a label by its name or its index."""
    indices = {str(index): index for index in range(len(names))} | {name: index for index, name in enumerate(names)}

    def find(label: str) -> int:
        if label not in indices:
            raise ValueError(f"label {label!r} is none of {', '.join(indices)}; see --names")
        return indices[label]

    return find


def indices_of(names: Sequence[str]) -> Callable[[str], frozenset[int]]:
    """Returns the function that finds labels with "|" between them; none of an empty cell."""
    find = index_of(names)
    return lambda labels: frozenset(find(label.strip()) for label in labels.split(SEPARATOR) if label.strip())


def number(cell: str) -> float:
    """Returns a finite number."""
    try:
        value = float(cell)
    except ValueError:
        raise ValueError(f"{cell!r} is no number") from None
    if not math.isfinite(value):
        raise ValueError(f"{cell!r} is not finite")
    return value


def label_names(path: Path, label: str) -> list[str]:
    """Returns the names of all labels in a column of label sets."""
    found: set[str] = set()

    def collect(cell: str) -> int:
        found.update(name.strip() for name in cell.split(SEPARATOR) if name.strip())
        return 0

    read_rows(path, (), label, collect)
    return sorted(found)


def read_words(path: Path, names: Sequence[str]) -> tuple[list[Example], list[str]]:
    """Returns the texts of a file with labelled words, and the names of the labels: `names`, or all in the file if there are
    none."""
    texts = bertscope_workbench.read_probe_texts(path)
    if texts.problems:
        raise ValueError(str(texts.problems[0]))
    names = names or sorted({name for text in texts for name, *_ in text.labels})
    indices = {name: index for index, name in enumerate(names)}
    examples = []
    for text, line in zip(texts, texts.lines, strict=True):
        words = []
        for name, *places in text.labels:
            if name not in indices:
                raise ValueError(f"{path} line {line}: label {name!r} is none of {', '.join(indices)}; see --names")
            start, end, *segment = (place for place in places if place is not None)
            if not (isinstance(start, int) and isinstance(end, int) and segment in ([], [0])):
                raise ValueError(f"{path} line {line} has labels of pairs; give single texts and words")
            words.append(Word(start, end, indices[name]))
        if words:
            examples.append(Example((text.text if isinstance(text.text, str) else text.text[0],), tuple(words)))
    if not examples:
        raise ValueError(f"{path} has no labelled word")
    return examples, list(names)


def read_answers(path: Path) -> AnsweredQuery:
    """Returns the questions of a file that `bertscope_workbench.read_answered` reads."""
    questions = []
    items = bertscope_workbench.read_answered(path)
    for (question, passage, answers), line in zip(items, items.lines, strict=True):
        name = f"{path} line {line}"
        spans = tuple(place_of(answer, passage) if isinstance(answer, str) else answer for answer in answers)
        questions.append(LabelledQuestion(PassageQuestion(question, passage, name), spans, name))
    # A file with questions that have no answer is one like SQuAD 2.0.
    threshold = 0.0 if any(not question.answers for question in questions) else None
    return AnsweredQuery(tuple(questions), max_answer_tokens=30, stride=None, no_answer_threshold=threshold)


def place_of(answer: str, passage: str) -> tuple[int, int]:
    """Returns the code points of an answer where it occurs first."""
    start = passage.index(answer)
    return start, start + len(answer)
