"""Reads the questions of SQuAD's own files (Rajpurkar et al. 2016, 2018): one JSON object of passages with their questions."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bertscope import InvalidArgument
from bertscope.errors import invalid_argument

SUFFIX = ".json"
SHAPE = '{"data": [{"paragraphs": [{"context": ..., "qas": [{"question": ..., "answers": [{"text", "answer_start"}]}]}]}]}'

AskedQuestion = tuple[str, str, tuple[tuple[int, int], ...]]
"""A question, its passage, and the code points [start, end) of its gold answers, none twice; no answer if it has none there."""


def squad_questions(path: Path) -> Iterator[AskedQuestion]:
    """Yields the questions of a file in its order. Raises OSError, or InvalidArgument, naming the file and the question's
    number, from 1, for another format and for an answer that is not where the file says."""
    try:
        held = json.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise invalid_argument(
            str(path), f"is not JSON ({error}); write {SHAPE}, or one object per line in a .jsonl file"
        ) from None
    number = 0
    for article in _listed(path, held, "data"):
        for paragraph in _listed(path, article, "paragraphs"):
            for asked in _listed(path, paragraph, "qas"):
                number += 1
                yield _question(path, number, paragraph, asked)


def _question(path: Path, number: int, paragraph: Mapping[str, Any], asked: object) -> AskedQuestion:
    passage, question = paragraph.get("context"), asked.get("question") if isinstance(asked, dict) else None
    if not (isinstance(passage, str) and isinstance(question, str) and passage.strip() and question.strip()):
        raise _bad(path, number, f"has no question or no context; the format is {SHAPE}")
    found = []
    for answer in _listed(path, asked, "answers"):
        start, text = (answer.get(key) if isinstance(answer, dict) else None for key in ("answer_start", "text"))
        if type(start) is not int or not isinstance(text, str) or not text or passage[start : start + len(text)] != text:
            raise _bad(path, number, "has an answer that is not in its context at answer_start, in code points")
        found.append((start, start + len(text)))
    return question, passage, tuple(dict.fromkeys(found))


def _listed(path: Path, held: object, key: str) -> list[Any]:
    found = held.get(key) if isinstance(held, dict) else None
    if not isinstance(found, list):
        raise invalid_argument(str(path), f"has no list {key!r} where SQuAD's files have one; the format is {SHAPE}")
    return found


def _bad(path: Path, number: int, problem: str) -> InvalidArgument:
    return invalid_argument(f"{path}, question {number}", problem)
