"""Reads the texts of a command: from arguments, or from lines of stdin."""

from __future__ import annotations

import re
import sys
from array import array
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from typing import Any, TypeVar

from bertscope.cli.views.output import Failure, UsageError, print_json
from bertscope.errors import InvalidArgument

Answer = TypeVar("Answer")


def answer_texts(
    texts: list[str] | None,
    ask: Callable[[Iterator[str]], Generator[Answer, None, None]],
    *,
    show: Callable[[Answer], None],
    document: Callable[[list[Answer]], Any] | None,
) -> None:
    """Asks about the texts, as many as there are, and shows each answer as it comes; or prints one document of them all.

    A rejected text is named by its place.
    """
    lines = array("L")
    try:
        with closing(ask(_placed(texts or [], lines))) as answers:
            if document is not None:
                print_json(document(list(answers)))
            else:
                for answer in answers:
                    show(answer)
    except InvalidArgument as error:
        raise Failure(with_places(str(error), lines)) from error


def _placed(texts: list[str], lines: array[int]) -> Iterator[str]:
    """Yields the texts, and records the line of each that comes from stdin."""
    for line, text in read_texts(texts):
        if line is not None:
            lines.append(line)
        yield text


def provenance_once(results: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns answers in JSON types; the provenance, which they share, once."""
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


def with_places(message: str, lines: Sequence[int]) -> str:
    """Returns the message with the line of a text, or the place of an argument, in place of the text's index."""

    def place(found: re.Match[str]) -> str:
        index = int(found[1])
        return f"line {lines[index]}" if index < len(lines) else f"texts[{index}]"

    def candidate(found: re.Match[str]) -> str:
        return f"candidate {int(found[2]) + 1} of {place(found)}"

    message = re.sub(r"\btext_pairs\[(\d+)\]", lambda found: f"the second text of {place(found)}", message)
    message = re.sub(r"\btext_candidates\[(\d+)\]\.words\[(\d+)\]", candidate, message)
    return re.sub(r"(?<![\w.])(?:texts|inputs)\[(\d+)\](?:\.text\b)?", place, message)
