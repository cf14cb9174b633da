"""Writes the files of sweeps: effects, and the state from which another sweep can resume."""

import hashlib
import json
from pathlib import Path

from bertscope import InvalidArgument, SweepTable
from bertscope.questions.ablation.sweeps import document, sweep_rows

from bertscope_workbench.command.views.files import partial_name, written
from bertscope_workbench.command.views.output import Failure, json_text
from bertscope_workbench.command.views.table_files import DELIMITERS, write_table

OUTPUT_FORMATS = (*DELIMITERS, ".jsonl", ".json")


def write_effects(table: SweepTable, path: Path) -> None:
    """Writes a row for each effect (or point) and metric, or all of the sweep as JSON, by the suffix of the file's name."""
    if path.suffix.lower() == ".json":
        with written(path) as file:
            file.write(json_text(document(table)))
        return
    columns, rows = sweep_rows(table)
    write_table(columns, rows, path)


def write_partial(table: SweepTable, output: Path | None) -> tuple[list[Path], Path]:
    """Writes the effects of a sweep that was cut short, under names that say so; returns these, and the one to resume from.

    Without a requested file, it writes to the current folder: an hour of work is not lost for want of an option.
    """
    if output is None:
        output = Path(f"sweep-{digest(table)}.json")
    path = partial_name(output)
    if path.suffix.lower() == ".json":
        write_effects(table, path)
        return [path], path
    rest = path.with_suffix(".json")
    write_effects(table, path)
    write_effects(table, rest)
    return [path, rest], rest


def digest(table: SweepTable) -> str:
    """Returns a few digits that distinguish sweeps of the same folder."""
    text = json.dumps([dict(table.asked), table.provenance.weights_digest], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def read_partial(path: Path) -> SweepTable:
    """Reads the file of --resume. Raises Failure for a file that can't be read, or has other contents."""
    try:
        return SweepTable.load(path)
    except InvalidArgument as error:
        raise Failure(error.message) from error
    except OSError as error:
        raise Failure(f"cannot read {path}: {error.strerror}") from error
