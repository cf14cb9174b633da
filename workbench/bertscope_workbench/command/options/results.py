"""Options of the files that a command writes, and the printing of its result."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, Unpack, cast

from bertscope.values.display import ShownAsTable
from rich.console import Console

from bertscope_workbench.command import options
from bertscope_workbench.command.groups import option
from bertscope_workbench.command.options.interventions import ModelOptions
from bertscope_workbench.command.options.looks import LookOptions
from bertscope_workbench.command.options.sources import Source
from bertscope_workbench.command.views.files import draw, partial_name, require_plot
from bertscope_workbench.command.views.output import console, print_json
from bertscope_workbench.command.views.table_files import require_table, write_columns
from bertscope_workbench.plots.look import Look

if TYPE_CHECKING:
    from bertscope import Client

T = TypeVar("T")
Item = TypeVar("Item")


class Save(Protocol):
    """Draws a figure into a file."""

    def __call__(self, path: Path, /, **look: Unpack[Look]) -> None:
        """Draws it so that it looks so."""


@dataclass(frozen=True)
class OutputOptions(LookOptions):
    """A figure and a table."""

    plot: Path | None = option("--plot FILE", "Draw it: .png, .svg or .pdf.")
    output: Path | None = option("--output FILE", "Write a table: .csv, .tsv, .jsonl, .parquet, .tex.")

    def __post_init__(self) -> None:
        """Rejects, before any call, files that could not be written after it."""
        require_plot(self.plot)
        require_table(self.output)
        super().__post_init__()

    def write(
        self,
        found: ShownAsTable | Mapping[str, Any],
        save: Save | None = None,
        *,
        partial: bool = False,
        units: Mapping[str, str] | None = None,
    ) -> list[Path]:
        """Writes the table, and with `save` the figure, under names that say so if they are `partial`. Returns their paths.

        `found` is a result, or the values of columns by name. `units` are those of columns whose name alone doesn't say it; a
        result has its own.
        """
        output, plot = (None if path is None else partial_name(path) if partial else path for path in (self.output, self.plot))
        if output is not None:
            if isinstance(found, ShownAsTable):
                units = {column.name: column.unit for column in found.declared() if column.unit}
                found = found.columns()
            write_columns(found, output, units)
        if plot is not None and save is not None:
            draw(lambda path: save(path, **self.look), plot)
        return [path for path in (output, plot) if path is not None]


@dataclass(frozen=True)
class SummaryOptions:
    """A file of the printed table, of commands whose --output has the parts of its numbers."""

    summary: Path | None = option(
        "--summary FILE", "Write the printed table, with intervals: .csv, .tsv, .jsonl, .parquet, .tex."
    )

    def __post_init__(self) -> None:
        require_table(self.summary, "--summary")

    def write(self, found: ShownAsTable | Mapping[str, Any], **more: Any) -> list[Path]:
        """Writes the table as `OutputOptions.write` does."""
        return OutputOptions(output=self.summary).write(found, **more)


@dataclass(frozen=True)
class PrintedOutputOptions(OutputOptions):
    """The same, and how to print."""

    json: options.Json = False


def print_result(
    found: T,
    document: Callable[[T], dict[str, Any]],
    show: Callable[[Console, T], None],
    *,
    json: bool,
    written: Iterable[Path | None] = (),
    source: Source[Any] | None = None,
) -> None:
    """Prints a result as one document, or with `show` for people, after what was left out and before the files."""
    if json:
        print_json(document(found) | ({} if source is None else {"left_out": source.left_out}))
        return
    screen = console()
    if source is not None:
        source.print_left_out(screen)
    show(screen, found)
    print_written(screen, written)


def print_written(screen: Console, paths: Iterable[Path | None]) -> None:
    """Prints the files that were written."""
    for path in paths:
        if path is not None:
            screen.print(f"wrote {path}", soft_wrap=True)


@dataclass(frozen=True)
class AskedResult(Generic[Item]):
    """A call that has one result: how it is asked, of texts of a file or others, and how its result is written and shown."""

    to: ModelOptions
    call: options.LongCallOptions
    out: OutputOptions
    source: Source[Item] | None = None

    @property
    def items(self) -> Sequence[Item]:
        """The texts."""
        return () if self.source is None else self.source.items

    @contextmanager
    def asking(self, progress: AbstractContextManager[Callable[[Any], None]]) -> Iterator[tuple["Client", dict[str, Any]]]:
        """Gives the client, and the arguments of the call that say how: changes of the model, `truncate`, `model` and
        `timeout`, and what hears of progress and of texts that the server rejects."""
        some_left = nullcontext() if self.source is None else self.source.some_left()
        with self.to.connect(self.call.timeout) as client, some_left, progress as show:
            how = {"on_progress": show, **self.to.arguments(), **self.call.arguments()}
            yield client, how if self.source is None else how | {"on_rejected": self.source.reject}

    def show(
        self,
        found: T,
        document: Callable[[T], dict[str, Any]],
        view: Callable[[Console, T], None],
        save: Save | None = None,
        *,
        table: Mapping[str, Any] | None = None,
        written: Iterable[Path] = (),
    ) -> None:
        """Writes the table of the result, or another one, and with `save` the figure, and prints the result; `written` are
        files that are written already."""
        files = [*self.out.write(table if table is not None else cast(ShownAsTable, found), save), *written]
        print_result(found, document, view, json=self.call.json, written=files, source=self.source)
