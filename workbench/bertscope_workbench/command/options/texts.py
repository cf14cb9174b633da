"""Reads the texts of a command: from arguments, or from lines of stdin."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from typing import Any, TypeVar

from bertscope import InvalidArgument
from bertscope.values.documents import document_of

from bertscope_workbench.command.views.output import Failure, UsageError, print_json
from bertscope_workbench.readers.items.naming import with_places

Answer = TypeVar("Answer")
T = TypeVar("T")


def answer_texts(
    texts: Iterable[tuple[int | None, T]],
    ask: Callable[[Iterator[T]], Generator[Answer, None, None]],
    *,
    show: Callable[[Answer], None],
    document: Callable[[list[Answer]], Any] | None,
) -> None:
    """Asks about the texts, as many as there are, and shows each answer as it comes; or prints one document of them all.

    `texts` have the numbers of their lines, if they are of lines. A rejected text is named by its place.
    """
    lines = array("L")
    try:
        with closing(ask(_placed(texts, lines))) as answers:
            if document is not None:
                print_json(document(list(answers)))
            else:
                for answer in answers:
                    show(answer)
    except InvalidArgument as error:

        def place(index: int) -> str:
            return f"line {lines[index]}" if index < len(lines) else f"texts[{index}]"

        raise Failure(with_places(str(error), place)) from error


def _placed(texts: Iterable[tuple[int | None, T]], lines: array[int]) -> Iterator[T]:
    """Yields the texts, and records the line of each that has one."""
    for line, text in texts:
        if line is not None:
            lines.append(line)
        yield text


def answers_document(answers: Iterable[Any], fields: Callable[[Any], dict[str, Any]] = document_of) -> dict[str, Any]:
    """Returns answers in JSON types, each by its `fields`; the provenance, which they share, once."""
    results = [fields(answer) for answer in answers]
    sources = [result.pop("provenance") for result in results]
    return {"provenance": sources[0] if sources else None, "results": results}


def read_texts(texts: list[str]) -> Iterator[tuple[int | None, str]]:
    """Yields the texts, or the lines of stdin that are not blank, each with its number, from 1."""
    if texts and texts != ["-"]:
        if "-" in texts:
            raise UsageError('"-" reads the texts from stdin, and takes no other TEXT')
        yield from ((None, text) for text in texts)
        return
    if not texts and sys.stdin.isatty():
        raise UsageError("no text: give a TEXT, or pipe lines in")
    empty = True
    for number, line in enumerate(sys.stdin.buffer, start=1):
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise Failure(f"line {number} is not UTF-8: {error.reason}") from None
        if text.strip():
            empty = False
            yield number, text
    if empty:
        raise UsageError("no text: stdin has no line that is not blank")
