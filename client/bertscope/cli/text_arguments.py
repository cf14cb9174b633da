"""Texts that a command is given: as arguments, or as lines of stdin."""

import itertools
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from bertscope.cli.output import Failure, UsageError, print_json
from bertscope.errors import InvalidArgument

Answer = TypeVar("Answer")

TEXTS_PER_CALL = 64
"""Below every server's limit, so that any number of lines may be piped in; answers are printed as they come."""


def answer_texts(
    texts: list[str] | None,
    ask: Callable[[tuple[str, ...]], Iterable[Answer]],
    *,
    show: Callable[[Answer], None],
    document: Callable[[list[Answer]], Any] | None,
) -> None:
    """Asks about the texts in groups, as they come, and shows each answer; or prints one document of them all.

    A text that is refused is named by its place.
    """
    asked, answers = read_texts(texts or []), list[Answer]()
    while batch := list(itertools.islice(asked, TEXTS_PER_CALL)):
        places, batch_texts = zip(*batch, strict=True)
        try:
            results = ask(batch_texts)
        except InvalidArgument as error:
            raise Failure(with_places(str(error), places)) from error
        if document is None:
            for answer in results:
                show(answer)
        else:
            answers += results
    if document is not None:
        print_json(document(answers))


def provenance_once(results: list[dict[str, Any]]) -> dict[str, Any]:
    """Answers as JSON has them; the provenance, which they share, once."""
    sources = [result.pop("provenance") for result in results]
    return {"provenance": sources[0] if sources else None, "results": results}


def read_texts(texts: list[str]) -> Iterator[tuple[str, str]]:
    """The texts, or the lines of stdin that are not blank; each with its place, as an error should name it."""
    if texts and texts != ["-"]:
        if "-" in texts:
            raise UsageError('"-" reads the texts from stdin, and takes no other TEXT')
        yield from ((f"texts[{index}]", text) for index, text in enumerate(texts))
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
            yield f"line {number}", text
    if empty:
        raise UsageError("no text: stdin has no line that is not blank")


def with_places(message: str, places: Sequence[str]) -> str:
    """The message, with the place of a text where it names the text by its index in the call."""

    def place(found: re.Match[str]) -> str:
        index = int(found[1])
        return places[index] if index < len(places) else found[0]

    return re.sub(r"\b(?:texts|inputs)\[(\d+)\](?:\.text\b)?", place, message)
