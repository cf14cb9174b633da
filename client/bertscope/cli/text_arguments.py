"""Texts that a command is given: as arguments, or as lines of stdin."""

import re
import sys
from collections.abc import Iterator, Sequence

from bertscope.cli.output import Failure, UsageError

TEXTS_PER_CALL = 64
"""Below every server's limit, so that any number of lines may be piped in; answers are printed as they come."""


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
