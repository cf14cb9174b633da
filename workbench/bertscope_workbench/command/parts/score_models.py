"""`bertscope score models`: minimal pairs by several models, in one table."""

from collections.abc import Mapping, Sequence

from bertscope import ComparedSet, TextComparison
from bertscope.questions.scores.comparison import set_columns
from rich.console import Console

from bertscope_workbench.command import options
from bertscope_workbench.command.groups import offered
from bertscope_workbench.command.options.interventions import ModelOptions
from bertscope_workbench.command.options.models import Models, side_by_side
from bertscope_workbench.command.options.results import PrintedOutputOptions, SummaryOptions, print_result
from bertscope_workbench.command.parts.score_pairs import (
    UNITS,
    accuracies,
    compared,
    document,
    print_differences,
    summary_columns,
)
from bertscope_workbench.command.parts.scoring import PairOptions
from bertscope_workbench.command.views.output import plural, titled


def compare_models(
    *,
    to: ModelOptions,
    models: Models,
    asked: PairOptions,
    summary: SummaryOptions,
    out: PrintedOutputOptions = offered("output", "json"),
    call: options.CallOptions = offered("truncate", "timeout"),
) -> None:
    """Compare minimal pairs by several models, and show accuracies by group, and how each differs from the first, pair by pair.

    Pairs that one of them can't read are left out for all.

    Example:

      bertscope score models examples/agreement.tsv --model a --model b
    """
    source = asked.source()
    found = dict[str, dict[int, ComparedSet]]()
    numbers: Sequence[int] = range(len(source.items))
    arguments = asked.arguments() | to.arguments() | {"truncate": call.truncate}
    with to.connect(call.timeout) as client:
        for model in models:
            sets, stopped = compared(client, source, numbers, f"comparing by {model}", model=model, **arguments)
            if stopped is not None:
                raise stopped
            found[model], numbers = sets, [*sets]
    alike = {model: TextComparison(tuple(sets[number] for number in numbers)) for model, sets in found.items()}
    values = source.columns(numbers)
    written = out.write(side_by_side({model: set_columns(each) | values for model, each in alike.items()}), units=UNITS)
    first = alike[models[0]]
    groups = {model: summary_columns(each, None if each is first else first, values) for model, each in alike.items()}
    written += summary.write(side_by_side(groups))
    print_result(
        alike,
        lambda alike: {"models": [document(each, None if each is first else first) for each in alike.values()]},
        print_models,
        json=out.json,
        written=written,
        source=source,
    )


def print_models(screen: Console, models: Mapping[str, TextComparison]) -> None:
    """Prints a row for each group and model; then how each model differs from the first, pair by pair."""
    first, *others = models.values()
    screen.print(titled(f"{plural(len(first.sets), 'pair')}, {first.sets[0].scoring.replace('_', '-')}", accuracies(models)))
    for other in others:
        print_differences(screen, other, first)
