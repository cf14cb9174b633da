"""`bertscope score --pairs`: minimal pairs, by group, for one model or two."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from bertscope import BertscopeError, Client, ComparedSet, InvalidArgument, TextComparison, TextSet, TextsProgress
from bertscope.questions.scores.comparison import ALL, set_columns
from rich.console import Console

from bertscope_workbench.command.groups import option, refuse, values_of
from bertscope_workbench.command.options import specifications
from bertscope_workbench.command.options.results import PrintedOutputOptions, print_result
from bertscope_workbench.command.options.server import ServerOptions
from bertscope_workbench.command.options.sources import Source
from bertscope_workbench.command.views.files import reading
from bertscope_workbench.command.views.output import Failure, bar, console, fields_of, plural, printable, reach, table, titled
from bertscope_workbench.command.views.progress import answering
from bertscope_workbench.plots.text_sets import save_accuracy
from bertscope_workbench.readers.set_files import read_sets

SMALL_P = 0.001


@dataclass(frozen=True)
class PairOptions:
    """The minimal pairs to compare, and how."""

    pairs: Annotated[
        Path | None,
        option("--pairs FILE", 'Compare minimal pairs: columns "good", "bad", or BLiMP\'s; or all files of a folder.'),
    ] = None
    group: Annotated[
        list[str] | None, option("--group NAME", "With --pairs: a column of groups; field, UID unless set. Repeatable.")
    ] = None
    critical_region: Annotated[
        bool, option("--critical-region", "With --pairs: score only the words that differ, given the rest.")
    ] = False
    baseline: Annotated[str | None, option("--baseline MODEL", "With --pairs: compare with this model, pair by pair.")] = None

    def __post_init__(self) -> None:
        if self.pairs is None:
            refuse(values_of(self, "group", "critical_region", "baseline"), "goes with --pairs")

    def source(self, columns: str | None, limit: int | None) -> Source[TextSet]:
        """Returns the pairs, with their places."""
        if self.pairs is None:
            raise ValueError("no file of pairs")
        with reading(self.pairs):
            found = read_sets(self.pairs, self.group, columns=specifications.columns("--columns", columns), limit=limit)
        return Source(found, [f"{path}, line {line}" for path, line in zip(found.paths, found.lines, strict=True)])


def compare_pairs(
    server: ServerOptions, options: PairOptions, source: Source[TextSet], out: PrintedOutputOptions, **arguments: Any
) -> None:
    """Compares the pairs by one model or two, and shows the accuracies by group. Pairs that one can't read are left out."""
    model, timeout = arguments.pop("model"), arguments.pop("timeout")
    asked = {"critical_region": options.critical_region, **arguments}
    with server.connect(timeout) as client:
        ours, stopped = _compared(client, source, range(len(source.items)), "comparing", model=model, **asked)
        theirs, both = ours, options.baseline is not None and stopped is None
        if both:
            what = f"comparing by {options.baseline}"
            theirs, stopped = _compared(client, source, [*ours], what, model=options.baseline, **asked)
    found = TextComparison(tuple(ours[number] for number in theirs))
    baseline = TextComparison(tuple(theirs.values())) if both else None
    written = out.write(
        columns(found, baseline),
        lambda path, **look: save_accuracy(found, path, baseline, **look),
        partial=stopped is not None,
        units={"difference": "nats"},
    )
    print_result(
        found,
        lambda found: document(found, baseline),
        lambda screen, found: print_comparison(screen, found, baseline),
        json=out.json,
        written=written,
        source=source,
    )
    if stopped is not None:
        counts = f"{len(found.sets)} of {plural(len(source.items), 'pair')}"
        console(stderr=True).print(f"cut short: the numbers are of {counts}", style="yellow")
        raise stopped


def _compared(
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


def columns(found: TextComparison, baseline: TextComparison | None) -> dict[str, Any]:
    """Returns a table with a row for each set; of two models, with the scores of both."""
    result = set_columns(found)
    if baseline is not None:
        other = set_columns(baseline)
        result |= {f"baseline_{name}": other[name] for name in ("right_score", "other_score", "difference", "outcome")}
    return result


def document(found: TextComparison, baseline: TextComparison | None) -> dict[str, Any]:
    """Returns the accuracies and the sets in JSON types; the provenance, which sets share, once."""
    result: dict[str, Any] = fields_of(found.sets[0], "provenance", "scoring") | {
        "accuracy": dataclasses.asdict(found.accuracy()),
        "groups": [dataclasses.asdict(group) for group in found.by_group()],
        "sets": [
            {name: value for name, value in dataclasses.asdict(one).items() if name not in ("provenance", "scoring")}
            | {"difference": one.difference}
            for one in found.sets
        ],
    }
    if baseline is not None:
        result["baseline"] = {
            "provenance": dataclasses.asdict(baseline.sets[0].provenance),
            "differences": [
                dataclasses.asdict(each) | {"difference": each.difference}
                for each in (found.against(baseline, group) for group in (ALL, *found.groups))
            ],
        }
    return result


def print_comparison(screen: Console, found: TextComparison, baseline: TextComparison | None) -> None:
    """Prints the accuracy of each group and of all sets, and how it differs from the baseline's."""
    result = table(["group", "pairs#", "accuracy#", "95 %#", "", "ties#", "difference, nats#"])
    for each in (*found.by_group(), found.accuracy()):
        if each.group == ALL and found.groups:
            result.add_section()
        result.add_row(
            printable(each.group or "all"),
            str(each.sets),
            f"{100 * each.accuracy:.1f}",
            reach(each.interval),
            bar(each.accuracy),
            str(each.tied or ""),
            f"{each.mean_difference:+.2f}",
        )
    first = found.sets[0]
    heading = f"{first.provenance.model}: {plural(len(found.sets), 'pair')}, {first.scoring.replace('_', '-')}"
    screen.print(titled(heading, result))
    cut = sum(one.truncated_tokens > 0 for one in found.sets)
    if cut:
        screen.print(f"pairs that were cut: {cut}", style="yellow")
    if baseline is not None:
        _print_differences(screen, found, baseline)


def _print_differences(screen: Console, found: TextComparison, baseline: TextComparison) -> None:
    names = ["group", "accuracy#", "baseline#", "difference#", "95 %#", "won#", "lost#", "McNemar's p#"]
    result = table(names)
    for group in (*found.groups, ALL):
        if group == ALL and found.groups:
            result.add_section()
        each = found.against(baseline, group)
        result.add_row(
            printable(group or "all"),
            f"{100 * each.accuracy:.1f}",
            f"{100 * each.baseline_accuracy:.1f}",
            f"{100 * each.difference:+.1f}",
            reach(each.interval, "+"),
            str(each.won),
            str(each.lost),
            f"< {SMALL_P}" if each.p < SMALL_P else f"{each.p:.3f}",
        )
    models = f"{found.sets[0].provenance.model} beside {baseline.sets[0].provenance.model}"
    screen.print(titled(f"{models}, pair by pair", result))
