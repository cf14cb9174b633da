"""Options, checks and the run of commands that answer texts or other items: as they come, or in a file with a row for each."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from bertscope.values.documents import document_of
from rich.console import Console

from bertscope_workbench.command import options
from bertscope_workbench.command.groups import argument, option
from bertscope_workbench.command.options.interventions import ModelOptions
from bertscope_workbench.command.options.items import ItemOptions, ItemSource, write_rows
from bertscope_workbench.command.options.texts import answer_texts, answers_document, read_texts
from bertscope_workbench.command.views.output import UsageError, console
from bertscope_workbench.readers import files
from bertscope_workbench.readers.files import ItemKind

if TYPE_CHECKING:
    from bertscope import Client

Numbered = Iterable[tuple[int | None, Any]]
"""Items, with the numbers of their lines if they are of lines."""


@dataclass(frozen=True)
class AskingOptions(ItemOptions, ModelOptions):
    """The server, the heads to change, and the file of rows."""


class Arguments(Protocol):
    """The items that a command line may have."""

    def items(self) -> Numbered:
        """Returns them, or those of stdin. Raises UsageError if there is none."""


@dataclass(frozen=True)
class TextArguments:
    """Texts of the command line, or of lines of stdin."""

    texts: list[str] | None = argument("[TEXT]...", 'Texts; "-" or none reads lines from stdin.', default=None, without="file")

    def items(self) -> Numbered:
        """Yields the texts."""
        return read_texts(self.texts or [])


@dataclass(frozen=True)
class PairArguments(TextArguments):
    """Texts likewise, or one pair."""

    pair: str | None = option("--pair, --text-pair TEXT", "A second text, read with the one TEXT.", without="file")

    def __post_init__(self) -> None:
        if self.pair is not None and (len(self.texts or []) != 1 or self.texts == ["-"]):
            raise UsageError("--pair goes with exactly one TEXT")

    def items(self) -> Numbered:
        """Yields the texts, or the pair."""
        return ((line, text if self.pair is None else (text, self.pair)) for line, text in super().items())


@dataclass(frozen=True)
class ItemFileOptions:
    """A file of items, by default of texts or pairs."""

    file: Path | None = option("--texts FILE", 'Read a file: column "text", maybe "text_pair", or .txt.')
    columns: options.Columns = None
    limit: int | None = option("--limit N", "Take the first N of the file.", min=1, needs="file")

    def source(self, kind: ItemKind[Any]) -> ItemSource[Any] | None:
        """Returns the items, None without a file."""
        return None if self.file is None else ItemSource(self.file, kind, self.columns, self.limit)


@dataclass(frozen=True)
class AskedItems:
    """The items that a command asks about: of its command line, of stdin or of a file."""

    to: AskingOptions
    given: Arguments
    file: ItemFileOptions
    call: options.CallOptions
    kind: ItemKind[Any] = files.INPUTS
    """The columns of the file that an item is made of."""

    def read(self) -> Numbered:
        """Returns the items. Raises UsageError if there is none, and Failure for a file that can't be read."""
        source = self.file.source(self.kind)
        return self.given.items() if source is None else source.texts()

    def answer(
        self,
        doing: str,
        method: Callable[[Client], Callable[..., Generator[Any, None, None]]],
        show: Callable[[Console, Any], None],
        fields: Callable[[Any], dict[str, Any]] = document_of,
        /,
        **asked: Any,
    ) -> None:
        """Asks about the items by a method of the client, and prints each answer as it comes, or the `fields` of all in one
        document; or writes a row for each. `asked` are the arguments of the command's own options."""
        arguments = self.to.arguments() | asked
        source = self.file.source(self.kind)
        with self.to.connect(self.call.timeout) as client:
            ask = partial(method(client), model=self.call.model)
            if source is not None and self.to.rows is not None:
                write_rows(source, self.to, ask, arguments, doing)
                return
            as_document = partial(answers_document, fields=fields) if self.call.json else None
            answer_texts(self.read(), partial(ask, **arguments), show=partial(show, console()), document=as_document)
