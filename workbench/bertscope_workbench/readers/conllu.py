"""Reads the sentences of a CoNLL-U file: their words, the words' columns, and their exact places in the text."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, SupportsIndex, TypeVar

from bertscope import Span
from bertscope.values.validation import File

from bertscope_workbench.readers.item_lists import BadLine, PartialItems, collected, made, require_file

BOM = b"\xef\xbb\xbf"
"""A mark that some programs write before the first line of UTF-8."""
COLUMNS = 10
MAX_QUOTED = 40
"""The most characters of a value that an error repeats."""
HEAD, MISC = 6, 9
"""Columns of the head's number, and of what else there is to say."""
TEXT = re.compile(r"# *text *= ?(.*)")
NUMBER = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")
HEAD_NUMBER = re.compile(r"[0-9]{1,9}")
EMPTY_WORD = re.compile(r"[0-9]+\.[0-9]+")
"""The number of a word that the sentence does not have, such as one that was elided."""

FoundT = TypeVar("FoundT", bound=PartialItems[Any])


@dataclass
class Sentence:
    """A sentence of a treebank."""

    text: str
    """The text of the words."""
    spans: list[Span] = field(default_factory=list)
    """The places of the words; those of a split word that is not written out are one."""
    places: dict[int, int] = field(default_factory=dict)
    """Index among `spans` of each word, by its number in the file."""
    rows: dict[int, list[str]] = field(default_factory=dict)
    """The columns of each word, by its number."""
    lines: dict[int, int] = field(default_factory=dict)
    """The line of each word, by its number."""


@dataclass
class _Written:
    """A word as it is written, which may stand for several words of the sentence."""

    line: int
    form: str
    space_after: bool
    last: int
    numbers: list[int] = field(default_factory=list)


def read_sentences(path: File, limit: SupportsIndex | None, item: Callable[[Sentence], Any], found: FoundT) -> FoundT:
    """Reads the sentences of a CoNLL-U file into `found`, at most `limit`, as what `item` makes of each; `found.lines` are the
    lines of their first words. A sentence that can't be read, or for which `item` raises BadLine or InvalidArgument, is left
    out and reported in `found.problems`. Returns `found`.

    Raises OSError for a file that can't be read, and InvalidArgument if no sentence of it can be.
    """

    def made_of(lines: Sequence[tuple[int, bytes]]) -> Any:
        sentence = parse_sentence(lines)
        return None if sentence is None else item(sentence)

    require_file(path := Path(path))
    with path.open("rb") as file:
        sentences = made(path, blocks(file), made_of, found.problems.append)
        return collected(found, sentences, limit, path, "has no sentence; give a CoNLL-U file")


def parse_sentence(lines: Sequence[tuple[int, bytes]]) -> Sentence | None:
    """Returns the sentence of some numbered lines; None for comments alone. Raises BadLine."""
    given: str | None = None
    rows: dict[int, list[str]] = {}
    numbers: dict[int, int] = {}
    words: list[_Written] = []
    for number, raw in lines:
        line = decoded(number, raw)
        if line.startswith("#"):
            found = TEXT.fullmatch(line)
            given = found[1] if found else given
            continue
        row = _columns(number, line)
        if EMPTY_WORD.fullmatch(row[0]):
            continue
        place = NUMBER.fullmatch(row[0])
        if place is None or int(place[1]) != len(rows) + 1 or (place[2] and int(place[2]) <= len(rows) + 1):
            raise BadLine(number, f"has the number {cut(row[0])} where word {len(rows) + 1} is due")
        first = int(place[1])
        if place[2] or not words or first > words[-1].last:
            words.append(_Written(number, row[1], "SpaceAfter=No" not in row[MISC].split("|"), int(place[2] or first)))
        if not place[2]:
            words[-1].numbers.append(first)
            rows[first], numbers[first] = row, number
    if not words:
        return None
    if len(rows) < words[-1].last:
        raise BadLine(words[-1].line, f"stands for words up to {words[-1].last}, and there are {len(rows)}")
    for number, row in rows.items():
        _check_head(numbers[number], number, row[HEAD], len(rows))
    sentence = _placed(given, words, rows)
    sentence.lines = numbers
    return sentence


def blocks(file: Iterable[bytes]) -> Iterator[tuple[int, list[tuple[int, bytes]]]]:
    """Yields the lines of each sentence with their numbers, and the number of its first word's line."""
    lines: list[tuple[int, bytes]] = []
    for number, line in enumerate(file, start=1):
        if line.strip(b" \r\n"):
            lines.append((number, line.removeprefix(BOM) if number == 1 else line))
        elif lines:
            yield _first(lines), lines
            lines = []
    if lines:
        yield _first(lines), lines


def _first(lines: list[tuple[int, bytes]]) -> int:
    return next((number for number, line in lines if not line.startswith(b"#")), lines[0][0])


def cut(value: str) -> str:
    """Returns a value in quotes, the first characters of a long one."""
    return repr(value) if len(value) <= MAX_QUOTED else f"{value[:MAX_QUOTED]!r}..."


def decoded(number: int, raw: bytes) -> str:
    """Returns a line as text, without its end. Raises BadLine."""
    try:
        return raw.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise BadLine(number, f"is not UTF-8 ({error.reason}); save the file as UTF-8") from None


def _columns(number: int, line: str) -> list[str]:
    row = line.rstrip("\t").split("\t")
    if len(row) < COLUMNS:
        raise BadLine(number, f"has {len(row)} of the {COLUMNS} columns of a word, with tabs between them")
    if not all(row[:2]):
        raise BadLine(number, "has no number or no word; the first two columns must have them")
    return row


def _check_head(line: int, number: int, head: str, words: int) -> None:
    if head == "_":
        return
    if HEAD_NUMBER.fullmatch(head) is None or int(head) > words or int(head) == number:
        raise BadLine(line, f"has the head {cut(head)}; it must be another word's number, 1 to {words}, or 0")


def _placed(given: str | None, words: Sequence[_Written], rows: dict[int, list[str]]) -> Sentence:
    """Returns the sentence with the place of each word."""
    text = given or "".join(word.form + " " * word.space_after for word in words).rstrip()
    sentence = Sentence(text, rows=rows)
    end = 0
    for word in words:
        start = end + len(text[end:]) - len(text[end:].lstrip())
        end = start + len(word.form)
        if text[start:end] != word.form:
            raise BadLine(
                word.line, f"{cut(word.form)} is not the next word of the sentence's text, {text[start : start + 20]!r}"
            )
        for number, (first, last) in zip(word.numbers, _parts(word, rows), strict=True):
            span = Span(start + first, start + last)
            if not sentence.spans or sentence.spans[-1] != span:
                sentence.spans.append(span)
            sentence.places[number] = len(sentence.spans) - 1
    return sentence


def _parts(word: _Written, rows: dict[int, list[str]]) -> list[tuple[int, int]]:
    """Returns the place of each word in the written one: one after the other if they are written out in it, else the whole."""
    forms = [rows[number][1] for number in word.numbers]
    if "".join(forms).lower() != word.form.lower() or sum(map(len, forms)) != len(word.form):
        return [(0, len(word.form))] * len(forms)
    ends = [sum(map(len, forms[: index + 1])) for index in range(len(forms))]
    return list(zip([0, *ends], ends, strict=False))
