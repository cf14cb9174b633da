"""`bertscope score --pairs`: minimal pairs, by group, for one model or two."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from bertscope import BertscopeError, Client, ComparedSet, InvalidArgument, TextComparison, TextSet, TextsProgress
from bertscope.questions.scores.comparison import ALL, group_columns, set_columns
from bertscope.values.documents import document_of, fields_of
from rich.console import Console
from rich.table import Table

from bertscope_workbench.command.groups import option, refuse, values_of
from bertscope_workbench.command.options import specifications
from bertscope_workbench.command.options.results import OutputOptions, PrintedOutputOptions, print_result
from bertscope_workbench.command.options.server import ServerOptions
from bertscope_workbench.command.options.sources import Source
from bertscope_workbench.command.views.files import reading
from bertscope_workbench.command.views.output import Failure, console, plural, table, titled
from bertscope_workbench.command.views.progress import answering
from bertscope_workbench.command.views.table_files import require_table
from bertscope_workbench.plots.text_sets import save_accuracy
from bertscope_workbench.readers.set_files import read_sets

SMALL_P = 0.001
MOST_ERRORS = 40
"""The most wrong pairs that are printed."""
UNITS = {"difference": "nats"}


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

    pairs: Annotated[
        Path | None,
        option("--pairs FILE", 'Compare minimal pairs: columns "good", "bad", or BLiMP\'s; or all files of a folder.'),
    ] = None
    group: Annotated[
        list[str] | None,
        option(
            "--group NAME[,NAME]",
            "With --pairs: a column of groups, or several, crossed; field, UID unless set. Repeatable.",
        ),
    ] = None
    errors: Annotated[bool, option("--errors", "With --pairs: list those that the model gets wrong, the worst first.")] = False
    errors_output: Annotated[
        Path | None, option("--errors-output FILE", "With --pairs: write those: .csv, .tsv, .jsonl, .parquet, .tex.")
    ] = None
    summary: Annotated[
        Path | None,
        option("--summary FILE", "With --pairs: write the table by group, with intervals: .csv, .tsv, .jsonl, .parquet, .tex."),
    ] = None
    critical_region: Annotated[
        bool, option("--critical-region", "With --pairs: score only the words that differ, given the rest.")
    ] = False
    baseline: Annotated[str | None, option("--baseline MODEL", "With --pairs: compare with this model, pair by pair.")] = None

    def __post_init__(self) -> None:
        if self.pairs is None:
            names = "group", "critical_region", "baseline", "errors", "errors_output", "summary"
            refuse(values_of(self, *names), "goes with --pairs")
        require_table(self.errors_output, "--errors-output")
        require_table(self.summary, "--summary")

    def source(self, columns: str | None, limit: int | None) -> PairSource:
        """Returns the pairs, with their places and the values of their groups."""
        if self.pairs is None:
            raise ValueError("no file of pairs")
        with reading(self.pairs):
            found = read_sets(self.pairs, self.group, columns=specifications.columns("--columns", columns), limit=limit)
        places = [f"{path}, line {line}" for path, line in zip(found.paths, found.lines, strict=True)]
        return PairSource(found, places, values=found.values)


def compare_pairs(
    server: ServerOptions, options: PairOptions, source: PairSource, out: PrintedOutputOptions, **arguments: Any
) -> None:
    """Compares the pairs by one model or two, and shows the accuracies by group. Pairs that one can't read are left out."""
    model, timeout = arguments.pop("model"), arguments.pop("timeout")
    asked = {"critical_region": options.critical_region, **arguments}
    with server.connect(timeout) as client:
        ours, stopped = compared(client, source, range(len(source.items)), "comparing", model=model, **asked)
        theirs, both = ours, options.baseline is not None and stopped is None
        if both:
            what = f"comparing by {options.baseline}"
            theirs, stopped = compared(client, source, [*ours], what, model=options.baseline, **asked)
    found = TextComparison(tuple(ours[number] for number in theirs))
    baseline = TextComparison(tuple(theirs.values())) if both else None
    written = out.write(
        columns(found, baseline, source.columns(theirs)),
        lambda path, **look: save_accuracy(found, path, baseline, **look),
        partial=stopped is not None,
        units=UNITS,
    )
    written += write_parts(options, found, baseline, source.columns(theirs), partial=stopped is not None)
    print_result(
        found,
        lambda found: document(found, baseline),
        lambda screen, found: print_comparison(screen, found, baseline, errors=options.errors),
        json=out.json,
        written=written,
        source=source,
    )
    if stopped is not None:
        counts = f"{len(found.sets)} of {plural(len(source.items), 'pair')}"
        console(stderr=True).print(f"cut short: the numbers are of {counts}", style="yellow")
        raise stopped


def compared(
    client: Client, source: Source[TextSet], numbers: Sequence[int], what: str, **arguments: Any
) -> tuple[dict[int, ComparedSet], BertscopeError | None]:
    """Compares some of the pairs. Returns those that the model can read, by their numbers, and the error that ended the calls
    before all were answered."""
    rejected, sets = set[int](), list[ComparedSet]()
    stopped: BertscopeError | None = None

    def reject(index: int, error: InvalidArgument) -> None:
        rejected.add(numbers[index])
        source.reject(numbers[index], error)

    asked = (source.items[number] for number in numbers)
    with source.named(), answering(what) as show:
        try:
            for one in client.compare_texts_stream(asked, on_rejected=reject, **arguments):
                sets.append(one)
                show(TextsProgress(len(sets), len(numbers)))
        except BertscopeError as error:
            if not sets:
                raise
            stopped = error
    if not sets:
        raise Failure(f"every pair was left out; {source.left_out[0]}")
    kept = (number for number in numbers if number not in rejected)
    return dict(zip(kept, sets, strict=stopped is None)), stopped


def write_parts(
    options: PairOptions,
    found: TextComparison,
    baseline: TextComparison | None,
    values: Mapping[str, list[str | None]],
    *,
    partial: bool,
) -> list[Path]:
    """Writes the table by group and the wrong pairs, if they are asked for. Returns their paths."""
    rows = columns(found, baseline, values)
    wrong = {name: [cells[number] for number in wrong_numbers(found)] for name, cells in rows.items()}
    files = (options.summary, summary_columns(found, baseline, values)), (options.errors_output, wrong)
    return [file for path, table in files for file in OutputOptions(output=path).write(table, partial=partial, units=UNITS)]


def wrong_numbers(found: TextComparison) -> list[int]:
    """Returns the numbers of the sets whose right text does not score highest, the worst first."""
    wrong = [number for number, one in enumerate(found.sets) if one.outcome != "right"]
    return sorted(wrong, key=lambda number: found.sets[number].difference)


def columns(
    found: TextComparison, baseline: TextComparison | None, values: Mapping[str, list[str | None]] | None = None
) -> dict[str, Any]:
    """Returns a table with a row for each set; of two models, with the scores of both. `values` are columns of groups."""
    result = set_columns(found)
    result |= {name if name not in result else f"group_{name}": each for name, each in (values or {}).items()}
    if baseline is not None:
        other = set_columns(baseline)
        result |= {f"baseline_{name}": other[name] for name in ("right_score", "other_score", "difference", "outcome")}
    return result


def summary_columns(
    found: TextComparison, baseline: TextComparison | None, values: Mapping[str, list[str | None]]
) -> dict[str, Any]:
    """Returns the table by group: all sets first; of two models, how they differ on the same sets. Crossed columns have one
    each."""
    result = group_columns(found)
    names = result.pop("group")
    members = {name: [number for number, one in enumerate(found.sets) if name in one.groups] for name in names}
    own = {"group": [name or None for name in names]}
    for column, cells in values.items():  # A group has a column's value if all of its sets have it.
        of = [{cells[number] for number in members[name]} for name in names]
        own[column if column not in result else f"group_{column}"] = [each.pop() if len(each) == 1 else None for each in of]
    if baseline is None:
        return own | result
    both = [found.against(baseline, name) for name in names]
    ends = [each.interval or (None, None) for each in both]
    return (
        own
        | result
        | {
            "baseline_accuracy": [each.baseline_accuracy for each in both],
            "above_baseline": [each.difference for each in both],
            "above_baseline_low": [low for low, _ in ends],
            "above_baseline_high": [high for _, high in ends],
            **{name: [getattr(each, name) for each in both] for name in ("won", "lost", "p")},
        }
    )


def document(found: TextComparison, baseline: TextComparison | None) -> dict[str, Any]:
    """Returns the accuracies and the sets in JSON types; the provenance, which sets share, once."""
    shared = "provenance", "scoring"
    own = [field.name for field in dataclasses.fields(ComparedSet) if field.name not in shared]
    result: dict[str, Any] = fields_of(found.sets[0], *shared) | {
        "accuracy": document_of(found.accuracy()),
        "groups": document_of(found.by_group()),
        "sets": [fields_of(one, *own, "difference") for one in found.sets],
    }
    if baseline is not None:
        both = (found.against(baseline, group) for group in (ALL, *found.groups))
        differences = [{**document_of(each), "difference": each.difference} for each in both]
        result["baseline"] = fields_of(baseline.sets[0], "provenance") | {"differences": differences}
    return result


def print_comparison(screen: Console, found: TextComparison, baseline: TextComparison | None, *, errors: bool = False) -> None:
    """Prints the accuracy of each group and of all sets, and how it differs from the baseline's; `errors`: also wrong sets."""
    first = found.sets[0]
    heading = f"{first.provenance.model}: {plural(len(found.sets), 'pair')}, {first.scoring.replace('_', '-')}"
    screen.print(titled(heading, accuracies({"": found})))
    cut = sum(one.truncated_tokens > 0 for one in found.sets)
    if cut:
        screen.print(f"pairs that were cut: {cut}", style="yellow")
    if baseline is not None:
        print_differences(screen, found, baseline)
    if errors:
        _print_errors(screen, found)


def accuracies(models: Mapping[str, TextComparison]) -> Table:
    """Returns a row for each group and model, those of all sets last."""
    rows: list[list[Any]] = []
    for group in (*next(iter(models.values())).groups, ALL):
        rows += [[]] if group == ALL and rows else []
        for model, found in models.items():
            each = found.accuracy(group)
            shares = each.accuracy, each.interval, each.accuracy
            rows.append([group or "all", model, each.sets, *shares, each.tied or "", each.mean_difference])
    return table(["group", "model", "pairs#", "accuracy#100", "95 %#100", "#bar", "ties#", "difference, nats#+.2f"], rows)


def _print_errors(screen: Console, found: TextComparison) -> None:
    numbers, rows = wrong_numbers(found), set_columns(found)
    names = "right_text", "best_other", "difference", "groups"
    every = ([rows[name][number] for name in names] for number in numbers[:MOST_ERRORS])
    result = table(["right text", "scores higher", "difference, nats#+.2f", "group"], every)
    screen.print(titled(f"{plural(len(numbers), 'pair')} of {len(found.sets)} that the model gets wrong", result))
    if len(numbers) > MOST_ERRORS:
        screen.print(f"and {len(numbers) - MOST_ERRORS} more: --errors-output FILE writes all", style="dim")


def print_differences(screen: Console, found: TextComparison, baseline: TextComparison) -> None:
    """Prints how the accuracy of each group differs from the baseline's on the same sets."""
    rows: list[list[Any]] = []
    for group in (*found.groups, ALL):
        rows += [[]] if group == ALL and rows else []
        each = found.against(baseline, group)
        shares = each.accuracy, each.baseline_accuracy, each.difference, each.interval
        rows.append([group or "all", *shares, each.won, each.lost, f"< {SMALL_P}" if each.p < SMALL_P else f"{each.p:.3f}"])
    columns = ["group", "accuracy#100", "baseline#100", "difference#+%", "95 %#+%", "won#", "lost#", "McNemar's p#"]
    models = f"{found.sets[0].provenance.model} beside {baseline.sets[0].provenance.model}"
    screen.print(titled(f"{models}, pair by pair", table(columns, rows)))
