"""Formats comparisons of texts as tables and as JSON."""

import dataclasses
from typing import Any

from bertscope import GroupDifference, TextComparison
from bertscope.questions.scores.comparison import ALL, set_columns
from rich.console import Console

from bertscope_workbench.command.views.output import bar, plural, printable, table, titled

SMALL_P = 0.001


def columns(found: TextComparison, baseline: TextComparison | None) -> dict[str, Any]:
    """Returns a table with a row for each set; of two models, with the scores of both."""
    result = set_columns(found)
    if baseline is not None:
        other = set_columns(baseline)
        result |= {f"baseline_{name}": other[name] for name in ("right_score", "other_score", "difference", "outcome")}
    return result


def document(found: TextComparison, baseline: TextComparison | None) -> dict[str, Any]:
    """Returns the accuracies and the sets in JSON types; the provenance, which sets share, once."""
    result: dict[str, Any] = {
        "provenance": dataclasses.asdict(found.sets[0].provenance),
        "scoring": found.sets[0].scoring,
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
            f"{100 * each.interval.low:.1f} to {100 * each.interval.high:.1f}",
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
            _interval(each),
            str(each.won),
            str(each.lost),
            f"< {SMALL_P}" if each.p < SMALL_P else f"{each.p:.3f}",
        )
    models = f"{found.sets[0].provenance.model} beside {baseline.sets[0].provenance.model}"
    screen.print(titled(f"{models}, pair by pair", result))


def _interval(each: GroupDifference) -> str:
    return "" if each.interval is None else f"{100 * each.interval.low:+.1f} to {100 * each.interval.high:+.1f}"
