"""Defines the options of `bertscope benchmark`, and converts them to arguments."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from bertscope import InvalidArgument

from bertscope_workbench.command.views.files import reading
from bertscope_workbench.command.views.output import Failure, UsageError
from bertscope_workbench.readers import files

TEXT = re.compile(r"(?<![\w.])(?:measurement\.)?(agreement_texts|texts)\[(\d+)\]")
"""The server's name of a text that is not part of the objective."""
FIELD = re.compile(r"(?<![\w.])(?:measurement\.(?:bootstrap\.)?(\w+)(?:\[\d+\])?|(systems|models)\[\d+\])")
"""The server's names of the options' values."""
OPTIONS = {"lengths": "--length", "batch_sizes": "--batch-size", "systems": "--system", "models": "--model"}
"""Options that have other names than their fields."""


@dataclass(frozen=True)
class MeasuringOptions:
    """The parameters of speed measurements."""

    length: Annotated[
        list[int] | None,
        typer.Option("--length", min=1, metavar="N", help="Tokens of a sequence; 32 and 128 unless set. Repeatable."),
    ] = None
    run_texts: Annotated[
        Path | None, typer.Option("--texts", metavar="FILE", help='Run these instead: .txt, or column "text" of a table.')
    ] = None
    batch_size: Annotated[
        list[int] | None,
        typer.Option("--batch-size", min=1, metavar="N", help="To try for throughput; 1 to 32 unless set. Repeatable."),
    ] = None
    min_runs: Annotated[
        int | None, typer.Option("--min-runs", min=3, help="Fewest runs of each model and length; 20 unless set.")
    ] = None
    min_seconds: Annotated[
        float | None, typer.Option("--min-seconds", min=0, help="Shortest time of each model and length; 1 unless set.")
    ] = None
    max_seconds: Annotated[
        float | None, typer.Option("--max-seconds", min=0.001, help="When measuring ends even so; 600 unless set.")
    ] = None
    runtime: Annotated[
        Literal["torch", "onnx"] | None,
        typer.Option("--runtime", help="The library that runs them all; that of the baseline unless set."),
    ] = None
    others: Annotated[
        Literal["wait", "refuse"], typer.Option("--others", help="What happens to other calls for the device meanwhile.")
    ] = "wait"
    resamples: Annotated[int | None, typer.Option("--resamples", min=100, help="Of the intervals; 1000 unless set.")] = None
    confidence: Annotated[float | None, typer.Option("--confidence", help="Of the intervals; 0.95 unless set.")] = None

    @property
    def texts_given(self) -> list[str]:
        """The option that only loaded models can take."""
        return _given(self, run_texts="--texts")

    def check(self) -> None:
        """Raises UsageError for options that exclude each other."""
        if self.length and self.run_texts:
            raise UsageError("--length and --texts exclude each other: texts have their own lengths")

    def texts(self) -> list[str] | None:
        """Returns the texts to run, None for sequences of given lengths."""
        return None if self.run_texts is None else texts(self.run_texts)

    def arguments(self) -> dict[str, Any]:
        """Returns the other options as arguments of `Client.benchmark_models` and `benchmark_studies`."""
        return {
            "lengths": self.length or None,
            "batch_sizes": self.batch_size or None,
            "min_runs": self.min_runs,
            "min_seconds": self.min_seconds,
            "max_seconds": self.max_seconds,
            "others": self.others,
            "resamples": self.resamples,
            "confidence": self.confidence,
        }


@dataclass(frozen=True)
class ModelOptions:
    """The loaded models to measure, and the texts on which their predictions are compared."""

    models: Annotated[
        list[str] | None, typer.Option("--model", metavar="NAME", help="A loaded model to measure. Repeatable.")
    ] = None
    baseline: Annotated[
        str | None,
        typer.Option("--baseline", metavar="NAME", help="The model that the others are compared with; the first unless set."),
    ] = None
    agreement: Annotated[
        Path | None,
        typer.Option("--agreement", metavar="FILE", help='Compare predictions on these texts: .txt, or column "text".'),
    ] = None
    top_k: Annotated[int | None, typer.Option("--top-k", min=1, help="With --agreement: its k; 5 unless set.")] = None
    as_loaded: Annotated[
        bool, typer.Option("--as-loaded", help="Run each model by the library it is loaded for, not all by the baseline's.")
    ] = False

    @property
    def given(self) -> list[str]:
        """The options that were given."""
        names = {"models": "--model", "baseline": "--baseline", "agreement": "--agreement", "top_k": "--top-k"}
        return _given(self, **names, as_loaded="--as-loaded")

    def check(self) -> None:
        """Raises UsageError for an option without the one that it goes with."""
        if self.top_k and self.agreement is None:
            raise UsageError("--top-k goes with --agreement: it is the k of the top-k agreement")

    def names(self) -> list[str]:
        """Returns the models, the baseline among them. Raises UsageError if there is none."""
        names = list(self.models or ())
        if self.baseline and self.baseline.removeprefix("models/") not in {name.removeprefix("models/") for name in names}:
            names.insert(0, self.baseline)
        if not names:
            raise UsageError("say what to measure: --model NAME for each, or --studies")
        return names


@dataclass(frozen=True)
class StudyOptions:
    """The published systems to measure instead of loaded models."""

    studies: Annotated[
        bool, typer.Option("--studies", help="Measure published compressed models instead, beside what was published.")
    ] = False
    system: Annotated[
        list[str] | None, typer.Option("--system", metavar="NAME", help="With --studies: one of them. Repeatable.")
    ] = None
    heavy: Annotated[bool, typer.Option("--heavy", help="With --studies: also those of BERT-large size.")] = False

    @property
    def given(self) -> list[str]:
        """The options that were given and go with --studies alone."""
        return _given(self, system="--system", heavy="--heavy")


def texts(path: Path) -> list[str]:
    """Returns the texts of a file."""
    with reading(path):
        return files.read_texts(path)


@contextmanager
def texts_named(**paths: Path | None) -> Iterator[None]:
    """Replaces the server's name of a field in errors by its option, and of one of its texts by its line in the field's
    file."""
    try:
        yield
    except InvalidArgument as error:
        said = FIELD.sub(_option, TEXT.sub(lambda found: _line(found, paths), str(error)))
        if said == str(error):
            raise
        raise Failure(said) from error


def _line(found: re.Match[str], paths: Mapping[str, Path | None]) -> str:
    path = paths.get(found[1])
    return f"{path}, line {files.read_texts(path, limit=int(found[2]) + 1).lines[-1]}" if path else found[0]


def _option(found: re.Match[str]) -> str:
    field = found[1] or found[2]
    return OPTIONS.get(field, f"--{field.replace('_', '-')}")


def _given(group: object, **options: str) -> list[str]:
    return [option for name, option in options.items() if getattr(group, name)]
