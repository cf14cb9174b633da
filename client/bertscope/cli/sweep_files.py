"""What sweep and rank write: JSON, files of effects, figures."""

import csv
import dataclasses
import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

from bertscope import _tables
from bertscope._figures import require_format
from bertscope.ablation import CurvePoint, HeadEffect, SweepTable
from bertscope.cli.output import Failure

DELIMITERS = {".tsv": "\t", ".csv": ","}
OUTPUT_FORMATS = (*DELIMITERS, ".jsonl")


def require_plot(path: Path | None) -> None:
    """Refuses, before anything is measured, what could not be drawn after it."""
    if path is None:
        return
    _require_writable("--plot", path, lambda: require_format(path))
    if importlib.util.find_spec("matplotlib") is None:
        raise Failure('figures need matplotlib: pip install "bertscope[plot]"')


def require_output(path: Path | None) -> None:
    """Refuses, before anything is measured, what could not be written after it."""
    if path is not None:
        _require_writable("--output", path, lambda: require_format(path, OUTPUT_FORMATS))


def draw(save: Callable[[Path], None], path: Path) -> None:
    """Writes a figure; what keeps it from being written becomes a line."""
    try:
        save(path)
    except (ImportError, OSError, ValueError) as error:
        raise Failure(str(error)) from error


def write_effects(table: SweepTable, path: Path) -> None:
    """Writes a row for each effect (or point) and metric, by the end of the file's name."""
    columns, rows = _tables.sweep_rows(table)
    try:
        with path.open("w", encoding="utf-8", newline="") as file:
            if path.suffix.lower() in DELIMITERS:
                writer = csv.writer(file, delimiter=DELIMITERS[path.suffix.lower()], lineterminator="\n")
                writer.writerows([columns, *rows])
            else:
                file.writelines(json.dumps(dict(zip(columns, row, strict=True))) + "\n" for row in rows)
    except OSError as error:
        raise Failure(f"cannot write {path}: {error.strerror}") from error


def document(table: SweepTable) -> dict[str, Any]:
    """The sweep as JSON has it."""
    return {
        "mode": table.mode,
        "scope": table.scope,
        "factor": table.factor,
        "confidence": table.confidence,
        "resamples": table.resamples,
        "seed": table.seed,
        "start": dataclasses.asdict(table.start),
        "effects": list(map(_effect, table.effects)),
        "points": list(map(_point, table.points)),
        "summary": dataclasses.asdict(table.summary),
    }


def _effect(effect: HeadEffect) -> dict[str, Any]:
    return {"layer": effect.layer, "head": effect.head, **dataclasses.asdict(effect)}


def _point(point: CurvePoint) -> dict[str, Any]:
    return dataclasses.asdict(point)


def _require_writable(option: str, path: Path, check: Callable[[], None]) -> None:
    try:
        check()
    except ValueError as error:
        raise typer.BadParameter(f"{option} {error}") from None
    if not path.absolute().parent.is_dir():
        raise typer.BadParameter(f"{option} {path}: there is no folder {path.absolute().parent}")
