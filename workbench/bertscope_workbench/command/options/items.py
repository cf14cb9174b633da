"""Defines the options of commands that write a row for each item of a file, and runs them."""

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Generic, TypeVar

from bertscope import BertscopeError, FailedPrecondition, InvalidArgument
from bertscope.errors import CLIENT_SIDE

from bertscope_workbench.command.groups import flag, option
from bertscope_workbench.command.options.signals import Ended, ended_by_signals
from bertscope_workbench.command.options.sources import MAX_REPORTED, why_rejected
from bertscope_workbench.command.views.files import require_output
from bertscope_workbench.command.views.output import Failure, Interrupted, Terminated, UsageError, console, plural, printable
from bertscope_workbench.readers.files import ItemKind
from bertscope_workbench.readers.items.row_file import ROW_FORMATS
from bertscope_workbench.readers.items.run import PATIENCE_SECONDS, Answer, RowsProgress, WrittenItems, write_items
from bertscope_workbench.readers.items.sources import Item, ItemFile, Items
from bertscope_workbench.readers.table_rows import Broken

T = TypeVar("T")

Place = Callable[[Item[Any]], str]
"""Names an item's place: "FILE, line 3"."""
GOES_ON = "the same command with --resume goes on"

SkipBroken = Annotated[
    bool,
    option("--skip-broken", "Name and leave out lines that can't be read, or that the server rejects.", needs="rows output"),
]


@dataclass(frozen=True)
class RowOptions:
    """The file with a row for each item, and how to deal with what is in its way."""

    named: ClassVar[str] = "--rows"

    rows: Path | None = option("--rows FILE", "Write a row for each as it comes: .csv, .jsonl or .parquet.", field="output")
    resume: bool = flag("--resume", "Go on where the file of rows ends; begin if there is none.", needs="rows")
    skip_broken: SkipBroken = False
    patience: float | None = option(
        "--patience SECONDS",
        f"How long a run waits for a server that is away; {PATIENCE_SECONDS:.0f} unless set.",
        min=0,
        needs="rows",
    )

    def __post_init__(self) -> None:
        """Rejects, before any call, files that could not be written after it."""
        if (
            self.rows is not None and self.rows.suffix.lower() == ".tex"
        ):  # Rows come one by one, and decimals and the width need all of them.
            others = f"write {', '.join(ROW_FORMATS[:-1])} or {ROW_FORMATS[-1]}"
            why = "rows are written as they come, which a table of LaTeX can't be"
            raise UsageError(f"{self.named} {self.rows}: {why}; {others}")
        require_output(self.rows, ROW_FORMATS, self.named)


@dataclass(frozen=True)
class ItemOptions(RowOptions):
    """The same of commands that write nothing else."""

    named: ClassVar[str] = "--output"

    rows: Path | None = option(
        "--output FILE", "Write a row for each: .csv, .jsonl or .parquet.", needs="file", without="json", field="output"
    )


class LeftOut:
    """Names items that are left out, the first ones on stderr at once, and counts them."""

    def __init__(self) -> None:
        self.number = 0

    def broken(self, error: InvalidArgument) -> None:
        """Notes a line that can't be read."""
        self._print(str(error))

    def rejected(self, place: Place) -> Callable[[Item[Any], InvalidArgument], None]:
        """Returns the function that notes an item that the server rejected; `place` names it."""
        return lambda item, error: self._print(f"{place(item)}: {why_rejected(error)}")

    def _print(self, line: str) -> None:
        self.number += 1
        screen = console(stderr=True)
        if self.number <= MAX_REPORTED:
            screen.print(printable(f"left out: {line}"), style="yellow", soft_wrap=True)
        elif self.number == MAX_REPORTED + 1:
            screen.print("left out: more, which are counted", style="yellow")


@dataclass(frozen=True)
class ItemSource(Generic[T]):
    """The file of items that a command reads."""

    path: Path
    """The file."""
    kind: ItemKind[T]
    """The columns that an item is made of."""
    columns: Mapping[str, str] | None = None
    """The value of --columns."""
    limit: int | None = None
    """The value of --limit."""

    def texts(self) -> Iterator[tuple[int, T]]:
        """Yields the items with the numbers of their lines. Raises Failure for a file that can't be read."""
        for item in self.read(None):
            yield item.number, item.value

    def read(self, on_broken: Broken | None) -> ItemFile[T]:
        """Returns the items. Raises Failure for a file that can't be read."""
        try:
            return ItemFile(self.path, self.kind, columns=self.columns, limit=self.limit, on_broken=on_broken)
        except OSError as error:
            raise Failure(f"cannot read {self.path}: {error.strerror}") from error
        except InvalidArgument as error:
            raise Failure(str(error)) from error


def write_rows(
    source: ItemSource[T],
    out: RowOptions,
    ask: Callable[..., Generator[Answer, None, None]],
    options: Mapping[str, Any],
    doing: str,
) -> None:
    """Writes a row for each item of a file, and says how many. `ask` is called with the items and the `options`.

    However it ends before, the file has a whole row for each answer; the error is one line that says how to go on.
    """
    left_out = LeftOut()
    items = source.read(left_out.broken if out.skip_broken else None)
    written = write_known_rows(items, lambda item: f"{source.path}, line {item.number}", left_out, out, ask, options, doing)
    report(written, left_out)


def write_known_rows(
    items: Items[T],
    place: Place,
    left_out: LeftOut,
    out: RowOptions,
    ask: Callable[..., Generator[Answer, None, None]],
    options: Mapping[str, Any],
    doing: str,
) -> WrittenItems:
    """Does the same for items that were read before, and says nothing; `left_out` has those that could not be read."""
    assert out.rows is not None  # noqa: S101  # the command has seen to it
    from bertscope_workbench.command.views.progress import answering  # many of its users write no rows

    rejected = left_out.rejected(place) if out.skip_broken else None
    counted = _Counted()

    def how() -> str:
        if counted.rows is None:
            return ""
        of = "" if items.total is None else f" of {items.total}"
        return f"; {out.rows} has {counted.rows}{of} {'row' if items.total == 1 else 'rows'}: {GOES_ON}"

    with stopped_in_one_line(out.rows, how) as check, answering(doing) as show:

        def progress(event: RowsProgress) -> None:
            counted.rows = event.rows
            check()
            show(event)

        return write_items(
            out.rows,
            items,
            ask,
            options=options,
            resume=out.resume,
            on_rejected=rejected,
            on_progress=progress,
            patience=PATIENCE_SECONDS if out.patience is None else out.patience,
        )


class _Counted:
    rows: int | None = None
    """The rows of the file; None before the first answer."""


def report(written: WrittenItems, left_out: LeftOut) -> None:
    """Says how many rows a file has, and how many items have none."""
    before = f", {written.resumed} of them before" if written.resumed else ""
    without = f"; left out {plural(left_out.number, 'item')}" if left_out.number else ""
    console().print(f"wrote {written.path}: {plural(written.rows, 'row')}{before}{without}", soft_wrap=True)


@contextmanager
def stopped_in_one_line(output: Path | None, how: Callable[[], str]) -> Iterator[Callable[[], None]]:
    """Turns the end of a run before its time into a line; `how` says how to go on, or nothing if there is nothing to keep.
    Gives a function to call at each answer: see `ended_by_signals`."""
    try:
        with ended_by_signals() as check:
            yield check
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted{how()}") from None
    except Ended as error:
        raise Terminated(f"ended by {error}{how()}") from None
    except BertscopeError as error:  # Before OSError: a call that took too long is a TimeoutError, which is one.
        refused = isinstance(error, FailedPrecondition) and error.reason == CLIENT_SIDE  # It can't go on, and says why.
        if refused or not how():
            raise
        error.message = f"{error}{how()}"
        error.field_violations = ()
        error.add_note(how())
        raise
    except OSError as error:
        raise Failure(f"cannot write {output or 'rows'}: {error.strerror or error}{how()}") from error
