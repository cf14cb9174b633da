"""`bertscope score pairs`: minimal pairs, by group, for one model or two."""

import dataclasses
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from bertscope import BertscopeError, Client, ComparedSet, InvalidArgument, TextComparison, TextSet, TextsProgress
from bertscope.questions.scores.comparison import ALL, group_columns, set_columns
from bertscope.values.documents import document_of, fields_of
from rich.console import Console
from rich.table import Table

from bertscope_workbench.command import options
from bertscope_workbench.command.groups import offered, option
from bertscope_workbench.command.options.interventions import ModelOptions
from bertscope_workbench.command.options.items import ItemSource, write_rows
from bertscope_workbench.command.options.results import OutputOptions, PrintedOutputOptions, SummaryOptions, print_result
from bertscope_workbench.command.options.sources import Source
from bertscope_workbench.command.parts.scoring import PairOptions, ScoredRowOptions, WrongPairOptions
from bertscope_workbench.command.views.output import Failure, UsageError, console, plural, table, titled
from bertscope_workbench.command.views.progress import answering
from bertscope_workbench.plots.text_sets import save_accuracy
from bertscope_workbench.readers import files
from bertscope_workbench.readers.answer_rows import read_pair_rows

SMALL_P = 0.001
MOST_ERRORS = 40
"""The most wrong pairs that are printed."""
UNITS = {"difference": "nats"}


def compare_pairs(
    *,
    to: ModelOptions,
    asked: PairOptions,
    baseline: str | None = option("--baseline MODEL", "Compare with this model, pair by pair.", without="rows"),
    wrong: WrongPairOptions,
    summary: SummaryOptions,
    out: PrintedOutputOptions,
    rows: ScoredRowOptions,
    call: options.CallOptions = offered("truncate", "model", "timeout"),
) -> None:
    """Count how often the better sentence of a minimal pair scores higher, by group; for two models, also pair by pair.

    Pairs that a model can't read are named and left out. With --rows, a row for each is written as it comes, and --resume goes
    on with a file that was cut short.

    Examples:

      bertscope score pairs examples/agreement.tsv
      bertscope score pairs examples/agreement.tsv --group number,between --errors
    """
    arguments = asked.arguments() | to.arguments() | {"truncate": call.truncate}
    if rows.rows is not None:
        pair_rows(to, asked, rows, call, arguments)
        return
    source = asked.source()
    with to.connect(call.timeout) as client:
        ours, stopped = compared(client, source, range(len(source.items)), "comparing", model=call.model, **arguments)
        theirs, both = ours, baseline is not None and stopped is None
        if both:
            theirs, stopped = compared(client, source, [*ours], f"comparing by {baseline}", model=baseline, **arguments)
    found = TextComparison(tuple(ours[number] for number in theirs))
    other = TextComparison(tuple(theirs.values())) if both else None
    values = source.columns(theirs)
    rows_of_pairs = columns(found, other, values)
    incorrect = {name: [cells[number] for number in wrong_numbers(found)] for name, cells in rows_of_pairs.items()}
    how: dict[str, Any] = {"partial": stopped is not None, "units": UNITS}
    written = out.write(rows_of_pairs, lambda path, **look: save_accuracy(found, path, other, **look), **how)
    written += summary.write(summary_columns(found, other, values), **how)
    written += OutputOptions(output=wrong.errors_output).write(incorrect, **how)
    print_result(
        found,
        lambda found: document(found, other),
        lambda screen, found: print_comparison(screen, found, other, errors=wrong.errors),
        json=out.json,
        written=written,
        source=source,
    )
    if stopped is not None:
        counts = f"{len(found.sets)} of {plural(len(source.items), 'pair')}"
        console(stderr=True).print(f"cut short: the numbers are of {counts}", style="yellow")
        raise stopped


def pair_rows(
    to: ModelOptions, asked: PairOptions, rows: ScoredRowOptions, call: options.CallOptions, arguments: Mapping[str, Any]
) -> None:
    """Writes a row for each pair as it comes, and prints the accuracies by group of all rows, those of earlier runs too."""
    if asked.file.is_dir():
        raise UsageError(f"--rows takes one file of pairs at a time, and {asked.file} is a folder")
    with to.connect(call.timeout) as client:
        compare = partial(client.compare_texts_stream, model=call.model)
        source = ItemSource(asked.file, files.PAIRS, asked.columns, asked.limit)
        write_rows(source, rows, compare, arguments, "comparing")
    assert rows.rows is not None  # noqa: S101  # the caller has seen to it
    found = read_pair_rows(rows.rows, asked.group, columns=asked.columns, scoring=asked.scoring)
    if found.sets:
        print_comparison(console(), found, None)


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
