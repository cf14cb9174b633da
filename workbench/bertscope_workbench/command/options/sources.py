"""Holds the texts of a command with the names of their places, and reports those that are left out."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from bertscope import BertscopeError, InvalidArgument
from bertscope.errors import CLIENT_SIDE
from rich.console import Console

from bertscope_workbench.command.views.output import Failure, plural, printable
from bertscope_workbench.command.views.wording import in_options
from bertscope_workbench.readers.item_lists import Items, PartialItems
from bertscope_workbench.readers.items.naming import candidate_name

T = TypeVar("T")

TEXT_BEGIN = re.compile(r"^(?:texts|inputs|sets|pairs)\[\d+\](?:\.text(?=\.input))?(?:\.input)?(?:\.text(?!\w))?[.:]? *")
TEXT = re.compile(r"(?:texts|inputs|sets|pairs)\[(\d+)\]")
CANDIDATE_BEGIN = re.compile(r"^text_candidates\[\d+\]\.words\[(\d+)\]")
MARK = re.compile(r"^spans(\[\d+\])(?:\.span)?")
MAX_REPORTED = 10
"""The most texts that are named; of the others, the number is."""


@dataclass
class Source(Generic[T]):
    """The texts of a command."""

    items: Sequence[T]
    """The texts."""
    places: Sequence[str]
    """The name of each one's place: "FILE, line 3"."""
    left_out: list[str] = field(default_factory=list)
    """A line for each text that can't be read, or that the server rejected."""
    rejected: str = ""
    """The line of the first text that the server rejected."""

    def reject(self, index: int, error: BertscopeError) -> None:
        """Notes a text that the server rejected: an `on_rejected`."""
        line = f"{self.places[index]}: {why_rejected(error)}"
        self.rejected = self.rejected or line
        self.left_out.append(line)

    @contextmanager
    def some_left(self) -> Iterator[None]:
        """Turns the client's error that every text was rejected into a line that names the first."""
        try:
            yield
        except InvalidArgument as error:
            if error.reason == CLIENT_SIDE and self.rejected:
                raise Failure(f"every text was left out; {self.rejected}") from error
            raise

    @contextmanager
    def named(self) -> Iterator[None]:
        """Turns an error about a text into a line that names its place."""
        try:
            yield
        except InvalidArgument as error:
            found = TEXT.match(error.field_violations[0].field) if error.field_violations else None
            if found is None:
                raise
            raise Failure(f"{self.places[int(found[1])]}: {_without_text(error.field_violations[0].description)}") from error

    def print_left_out(self, screen: Console) -> None:
        """Prints the texts that were left out, the first ones by their places."""
        print_problems(screen, self.left_out, "text")
        if len(self.left_out) > MAX_REPORTED:
            screen.print(f"  and {len(self.left_out) - MAX_REPORTED} more", style="yellow")


def print_problems(screen: Console, problems: Sequence[object], what: str = "sentence") -> None:
    """Prints how many texts were left out, and why, of the first ones."""
    if problems:
        screen.print(f"left out: {plural(len(problems), what)}", style="yellow")
        for problem in problems[:MAX_REPORTED]:
            screen.print(printable(f"  {problem}"), style="yellow", soft_wrap=True)


def why_rejected(error: BertscopeError) -> str:
    """Returns the reason for which a text was rejected."""
    return _without_text(error.field_violations[0].description if error.field_violations else error.message)


def _without_text(why: str) -> str:
    """Returns the description of an error without the number of its text, in the words of files and options."""
    why = CANDIDATE_BEGIN.sub(lambda found: candidate_name(found[1]), TEXT_BEGIN.sub("", why))
    return in_options(MARK.sub(r"marks\1", why))


def source_of(path: Path, read: Callable[[], Items[T]]) -> Source[T]:
    """Returns the texts of a file. Raises Failure for one that can't be read."""
    try:
        items = read()
    except OSError as error:
        raise Failure(f"cannot read {path}: {error.strerror}") from error
    problems: list[InvalidArgument] = items.problems if isinstance(items, PartialItems) else []
    return Source(items, [f"{path}, line {line}" for line in items.lines], [str(problem) for problem in problems])
