"""Defines the options of `bertscope benchmark`, and converts them to arguments."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bertscope import InvalidArgument

from bertscope_workbench.command.groups import flag, option
from bertscope_workbench.command.options import Arguments
from bertscope_workbench.command.options.models import distinct
from bertscope_workbench.command.views.files import read_file
from bertscope_workbench.command.views.output import Failure, UsageError
from bertscope_workbench.readers import files

TEXT = re.compile(r"(?<![\w.])(?:measurement\.)?(agreement_texts|texts)\[(\d+)\]")
"""The server's name of a text that is not part of the objective."""


@dataclass(frozen=True)
class MeasuringOptions(Arguments):
    """The parameters of speed measurements."""

    lengths: list[int] | None = option(
        "--length N", "Tokens of a sequence; 32 and 128 unless set. Repeatable.", min=1, without="run_texts"
    )
    batch_sizes: list[int] | None = option("--batch-size N", "To try for throughput; 1 to 32 unless set. Repeatable.", min=1)
    min_runs: int | None = option("--min-runs", "Fewest runs of each model and length; 20 unless set.", min=3)
    min_seconds: float | None = option("--min-seconds", "Shortest time of each model and length; 1 unless set.", min=0)
    max_seconds: float | None = option("--max-seconds", "When measuring ends even so; 600 unless set.", min=0.001)
    runtime: Literal["torch", "onnx"] | None = option(
        "--runtime", "The library that runs them all; that of the baseline unless set."
    )
    others: Literal["wait", "refuse"] = option(
        "--others", "What happens to other calls for the device meanwhile.", default="wait"
    )
    resamples: int | None = option("--resamples", "Of the intervals; 1000 unless set.", min=100)
    confidence: float | None = option("--confidence", "Of the intervals; 0.95 unless set.")


@dataclass(frozen=True)
class ModelOptions:
    """The loaded models to measure, and texts: those to run, and those on which their predictions are compared."""

    models: list[str] | None = option("--model NAME", "A loaded model to measure. Repeatable.", callback=distinct)
    baseline: str | None = option("--baseline NAME", "The model that the others are compared with; the first unless set.")
    run_texts: Path | None = option("--texts FILE", 'Run these, not --length: .txt, or column "text" of a table.')
    agreement: Path | None = option("--agreement FILE", 'Compare predictions on these texts: .txt, or column "text".')
    embed: bool = flag("--embed", "Time and compare vectors of texts, as without a head; not what heads predict.")
    top_k: int | None = option("--top-k", "With --agreement: its k; 5 unless set.", min=1, needs="agreement")
    as_loaded: bool = flag(
        "--as-loaded", "Run each model by the library it is loaded for, not all by the baseline's.", without="runtime"
    )

    def names(self) -> list[str]:
        """Returns the models, the baseline among them. Raises UsageError if there is none."""
        names = list(self.models or ())
        if self.baseline and self.baseline.removeprefix("models/") not in {name.removeprefix("models/") for name in names}:
            names.insert(0, self.baseline)
        if not names:
            raise UsageError("say what to measure: --model NAME for each")
        return names


def texts(path: Path | None) -> list[str] | None:
    """Returns the texts of a file, None without one."""
    return None if path is None else read_file(path, files.read_texts)


@contextmanager
def texts_named(**paths: Path | None) -> Iterator[None]:
    """Replaces the server's name of one of its texts in errors by its line in the file of the field."""
    try:
        yield
    except InvalidArgument as error:
        said = TEXT.sub(lambda found: _line(found, paths), str(error))
        if said == str(error):
            raise
        raise Failure(said) from error


def _line(found: re.Match[str], paths: Mapping[str, Path | None]) -> str:
    path = paths.get(found[1])
    return f"{path}, line {files.read_texts(path, limit=int(found[2]) + 1).lines[-1]}" if path else found[0]
