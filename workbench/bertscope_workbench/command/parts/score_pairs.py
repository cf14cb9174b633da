"""`bertscope score --pairs`: minimal pairs, by group, for one model or two."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from bertscope import BertscopeError, Client, ComparedSet, InvalidArgument, TextComparison, TextSet, TextsProgress

from bertscope_workbench.command.options import specifications
from bertscope_workbench.command.options.groups import refuse
from bertscope_workbench.command.options.results import PrintedOutputOptions, print_result
from bertscope_workbench.command.options.server import ServerOptions
from bertscope_workbench.command.options.sources import Source
from bertscope_workbench.command.views import text_sets as view
from bertscope_workbench.command.views.files import reading
from bertscope_workbench.command.views.output import Failure, console, plural
from bertscope_workbench.command.views.progress import answering
from bertscope_workbench.plots.text_sets import save_accuracy
from bertscope_workbench.readers.set_files import read_sets


@dataclass(frozen=True)
class PairOptions:
    """The minimal pairs to compare, and how."""

    pairs: Annotated[
        Path | None,
        typer.Option(
            "--pairs",
            metavar="FILE",
            help='Compare minimal pairs: columns "good", "bad", or BLiMP\'s; or all files of a folder.',
        ),
    ] = None
    group: Annotated[
        list[str] | None,
        typer.Option("--group", metavar="NAME", help="With --pairs: a column of groups; field, UID unless set. Repeatable."),
    ] = None
    critical_region: Annotated[
        bool, typer.Option("--critical-region", help="With --pairs: score only the words that differ, given the rest.")
    ] = False
    baseline: Annotated[
        str | None, typer.Option("--baseline", metavar="MODEL", help="With --pairs: compare with this model, pair by pair.")
    ] = None

    def __post_init__(self) -> None:
        given = {"--group": self.group, "--critical-region": self.critical_region, "--baseline": self.baseline}
        if self.pairs is None:
            refuse(given, "goes with --pairs")

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
        view.columns(found, baseline),
        lambda path, dark: save_accuracy(found, path, baseline, dark=dark),
        partial=stopped is not None,
    )
    print_result(
        found,
        lambda found: view.document(found, baseline),
        lambda screen, found: view.print_comparison(screen, found, baseline),
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
