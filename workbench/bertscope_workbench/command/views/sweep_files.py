"""Writes the files of sweeps and traces: effects, and the state from which another one can resume."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from bertscope import FailedPrecondition, InvalidArgument, SweepTable, Trace
from bertscope.questions.ablation import sweeps, traces
from rich.console import Console

from bertscope_workbench.command.options.going_on import KeptFile
from bertscope_workbench.command.options.results import OutputOptions, Save, print_written
from bertscope_workbench.command.views.files import partial_name, written
from bertscope_workbench.command.views.method import with_method
from bertscope_workbench.command.views.output import Failure, console, json_text, print_json
from bertscope_workbench.command.views.table_files import DELIMITERS, LATEX, write_columns

Kept = TypeVar("Kept", SweepTable, Trace)

OUTPUT_FORMATS = (*DELIMITERS, ".jsonl", ".json", LATEX)


def document(table: SweepTable | Trace) -> dict[str, Any]:
    """Returns the whole in JSON types."""
    return traces.document(table) if isinstance(table, Trace) else sweeps.document(table)


def write_effects(table: SweepTable | Trace, path: Path) -> None:
    """Writes a row for each effect (or point) and metric, or all of the sweep as JSON, by the suffix of the file's name."""
    if path.suffix.lower() == ".json":
        with written(path) as file:
            file.write(json_text(with_method(document(table))))
        return
    write_columns(table.columns(), path)


def write_partial(table: SweepTable | Trace, output: Path | None) -> tuple[list[Path], Path]:
    """Writes the effects of one that was cut short, under names that say so; returns these, and the one to resume from.

    Without a requested file, it writes to the current folder: an hour of work is not lost for want of an option.
    """
    if output is None:
        output = Path(f"{'trace' if isinstance(table, Trace) else 'sweep'}-{digest(table)}.json")
    path = partial_name(output)
    if path.suffix.lower() == ".json":
        write_effects(table, path)
        return [path], path
    rest = path.with_suffix(".json")
    write_effects(table, path)
    write_effects(table, rest)
    return [path, rest], rest


def kept_path(output: Path | None) -> Path | None:
    """Returns the file that has what was measured while it is measured, from which another one can resume; None without an
    output."""
    return None if output is None else partial_name(output).with_suffix(".json")


def digest(table: SweepTable | Trace) -> str:
    """Returns a few digits that distinguish those of the same folder."""
    pairs = list(table.digests) if isinstance(table, Trace) else []
    text = json.dumps([dict(table.asked), table.provenance.weights_digest, *pairs], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def read_partial(path: Path, kind: type[Kept]) -> Kept:
    """Reads the file of --resume; of a table of effects the one that is written beside it. Raises Failure for a file that can't
    be read, or has other contents."""
    beside = kept_path(path)
    if beside is not None and path.suffix.lower() != ".json" and beside.is_file():
        path = beside
    try:
        return kind.load(path)
    except InvalidArgument as error:
        raise Failure(error.message) from error
    except OSError as error:
        raise Failure(f"cannot read {path}: {error.strerror}") from error


def write(found: SweepTable | Trace, output: Path | None, drawn: Iterable[Path], *, quiet: bool) -> None:
    """Writes the requested file, or for one that was cut short the file from which another one can resume; prints the names,
    also those of the figures that were `drawn`."""
    written: list[Path] = []
    rest: Path | None = None
    if not found.complete and not (quiet and output is None):  # A document on stdout can be resumed.
        written, rest = write_partial(found, output)
    elif output is not None:
        write_effects(found, output)
        written = [output]
    screen = console(stderr=quiet)
    if not (quiet and found.complete):
        print_written(screen, [*written, *drawn])
    if rest is not None:
        screen.print(f"the rest: the same command with --resume {rest}", soft_wrap=True)


def finish(
    found: Kept,
    show: Callable[[Console, Kept], None],
    save: Save,
    out: OutputOptions,
    output: Path | None,
    kept: KeptFile[Kept],
    stopped: BaseException | None,
    *,
    json: bool,
) -> None:
    """Prints one that is over, or one that was `stopped`, and writes its figure and files, also when nobody reads what it
    prints. Raises what it was stopped by."""
    try:
        if json:
            print_json(document(found))
        else:
            show(console(), found)
    finally:
        write(found, output, out.write({}, save, partial=not found.complete), quiet=json)
    if found.complete:
        kept.drop(output)
    if stopped is not None:
        raise stopped


@contextmanager
def resumption_named() -> Iterator[None]:
    """Replaces the Python client's argument in errors by the option."""
    try:
        yield
    except (InvalidArgument, FailedPrecondition) as error:
        if error.reason == "CLIENT_SIDE" and "start_from" in str(error):
            raise Failure(str(error).replace("start_from", "--resume")) from error
        raise
