"""What sweep writes: JSON and files of effects."""

import csv
import dataclasses
import json
from pathlib import Path
from typing import Any

from bertscope import _tables
from bertscope.ablation import CurvePoint, HeadEffect, SweepTable
from bertscope.cli.output_files import written

DELIMITERS = {".tsv": "\t", ".csv": ","}
OUTPUT_FORMATS = (*DELIMITERS, ".jsonl")


def write_effects(table: SweepTable, path: Path) -> None:
    """Writes a row for each effect (or point) and metric, by the end of the file's name."""
    columns, rows = _tables.sweep_rows(table)
    with written(path) as file:
        if path.suffix.lower() in DELIMITERS:
            writer = csv.writer(file, delimiter=DELIMITERS[path.suffix.lower()], lineterminator="\n")
            writer.writerows([columns, *rows])
        else:
            file.writelines(json.dumps(dict(zip(columns, row, strict=True))) + "\n" for row in rows)


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
