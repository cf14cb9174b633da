"""Options that the modes of `bertscope score` share."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from bertscope import Scoring, TextSet

from bertscope_workbench.command import options
from bertscope_workbench.command.groups import argument, flag, option
from bertscope_workbench.command.options.items import RowOptions
from bertscope_workbench.command.options.sources import Source
from bertscope_workbench.command.views.files import read_file
from bertscope_workbench.command.views.table_files import require_table
from bertscope_workbench.readers.set_files import read_sets

ScoringOption = Annotated[
    Scoring, option("--scoring", "What is masked with each piece: later ones of its word, none, or all.", dashed=True)
]


@dataclass(frozen=True)
class ScoredRowOptions(RowOptions):
    """The file of rows of a command whose other files have all at once."""

    rows: Path | None = option(
        "--rows FILE",
        "Write a row for each as it comes: .csv, .jsonl or .parquet.",
        needs="file",
        field="output",
        without="plot output json summary errors errors_output",
    )


@dataclass
class PairSource(Source[TextSet]):
    """Minimal pairs, and the values of the columns of their groups."""

    values: Sequence[Mapping[str, str]] = ()

    def columns(self, numbers: Iterable[int]) -> dict[str, list[str | None]]:
        """Returns the columns of groups by name, of pairs by their numbers."""
        names = dict.fromkeys(name for values in self.values for name in values)
        numbers = [*numbers]
        return {name: [self.values[number].get(name) for number in numbers] for name in names}


@dataclass(frozen=True)
class PairOptions:
    """The minimal pairs to compare, and how."""

    file: Path = argument("FILE", 'Minimal pairs: columns "good", "bad", or BLiMP\'s; or a folder, for all of its files.')
    group: list[str] | None = option(
        "--group NAME[,NAME]", "A column of groups, or several, crossed; field, UID unless set. Repeatable."
    )
    columns: options.Columns = None
    limit: int | None = option("--limit N", "Take the first N of each file.", min=1)
    critical_region: bool = flag("--critical-region", "Score only the words that differ, given the rest.")
    scoring: ScoringOption = "within_word"

    def source(self) -> PairSource:
        """Returns the pairs, with their places and the values of their groups."""
        found = read_file(self.file, lambda path: read_sets(path, self.group, columns=self.columns, limit=self.limit))
        places = [f"{path}, line {line}" for path, line in zip(found.paths, found.lines, strict=True)]
        return PairSource(found, places, values=found.values)

    def arguments(self) -> dict[str, Any]:
        """Returns how to score, as arguments of a call."""
        return {"critical_region": self.critical_region, "scoring": self.scoring}


@dataclass(frozen=True)
class WrongPairOptions:
    """How the pairs that a model gets wrong are shown."""

    errors: bool = flag("--errors", "List those that the model gets wrong, the worst first.")
    errors_output: Path | None = option("--errors-output FILE", "Write those: .csv, .tsv, .jsonl, .parquet, .tex.")

    def __post_init__(self) -> None:
        require_table(self.errors_output, "--errors-output")
