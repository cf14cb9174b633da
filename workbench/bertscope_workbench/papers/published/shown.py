"""Puts the figures of a reproduction into tables and sentences."""

import math
from collections.abc import Sequence

from bertscope.values.display import record
from bertscope.values.models import short_name

from bertscope_workbench.papers.published.figures import Difference, GroupFigure, is_share
from bertscope_workbench.papers.published.reproduced import UNCOMPARED, Reproduced

WHOLE = "all"
"""The name of all items together."""


@record
class Table:
    """Rows of text; the name of a column of numbers ends with "#"."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


def tables(found: Sequence[Reproduced]) -> list[Table]:
    """Returns the tables of a reproduction: the figures of all models, differences from a baseline, and published figures."""
    asked = [each for each in found if each.figures]
    if not asked:
        return []
    published = [published_table(asked)] if asked[0].questions.reproduction.published else []
    return [figures_table(asked), *(difference_table(each) for each in asked if each.differences), *published]


def figures_table(found: Sequence[Reproduced]) -> Table:
    """Returns all figures: a row for each group, columns for each model and metric."""
    reproduction, read = found[0].questions.reproduction, found[0].questions.read
    metrics = reproduction.metrics
    columns, cells = ["group", "items#"], dict[str, list[str]]()
    for each in found:
        name = f"{short_name(each.model)} " if len(found) > 1 else ""
        by_name = {(figure.group, figure.metric): figure for figure in each.figures}
        for metric in metrics:
            columns += [f"{name}{metric}#", *(["95 %#"] if is_share(metric) else [])]
        has_ties = any(figure.tied for figure in each.figures)
        if has_ties:
            columns.append(f"{name}ties#")
        for figure in (one for one in each.figures if one.metric == metrics[0]):
            row = cells.setdefault(figure.group, [figure.group or WHOLE, str(figure.items)])
            for metric in metrics:
                row += _cells(by_name[figure.group, metric])
            if has_ties:
                row.append(str(figure.tied))
    rows = [row + ["–"] * (len(columns) - len(row)) for row in cells.values()]
    mean = "; all: mean over groups" if reproduction.mean == "groups" else ""
    among = f"; ranks among the {len(read.vocabulary):,} words of {read.vocabulary_file.name}" if read.vocabulary_file else ""
    return Table(f"{reproduction.title}{mean}{among}", columns, rows)


def _cells(figure: GroupFigure) -> list[str]:
    if not is_share(figure.metric):
        return [number(figure.value)]
    interval = "–" if math.isnan(figure.low) else f"{100 * figure.low:.1f} to {100 * figure.high:.1f}"
    return [percent(figure.value), interval]


def published_table(found: Sequence[Reproduced]) -> Table:
    """Returns published figures beside those of the models."""
    rows = [
        [
            one.published.model,
            f"{one.published.metric}{f', {one.published.group}' if one.published.group else ''}",
            f"{one.published.value:.3f} ± {one.published.tolerance:g}",
            one.model,
            number(one.value),
            one.verdict,
            one.published.source,
        ]
        for each in found
        for one in each.compared
    ]
    columns = ["published of", "figure", "published#", "here", "here#", "verdict", "source"]
    return Table("published figures", columns, rows)


def difference_table(found: Reproduced) -> Table:
    """Returns the differences from the baseline: a row for each group, columns for each metric; shares in points of 100."""
    metrics = dict.fromkeys(each.metric for each in found.differences)
    columns, cells = ["group", "items#"], dict[str, list[str]]()
    for metric in metrics:
        columns += [f"{metric}{', points' if is_share(metric) else ''}#", "95 %#", *(["p#"] if is_share(metric) else [])]
    for each in found.differences:
        row = cells.setdefault(each.group, [each.group or WHOLE, str(each.items)])
        row += _difference_cells(each)
    names = f"{short_name(found.model)} minus {found.baseline}"
    caption = f"{names}, of the items that both were asked; 95 %: paired bootstrap; p: McNemar's exact test"
    return Table(caption, columns, [*cells.values()])


def _difference_cells(each: Difference) -> list[str]:
    scale, form = (100, "+.1f") if is_share(each.metric) else (1, "+.3f")
    low_high = "–"
    if each.interval is not None:
        low_high = f"{scale * each.interval.low:{form}} to {scale * each.interval.high:{form}}"
    p_value = [f"{each.p_value:.2g}"] if is_share(each.metric) else []
    return ["–" if math.isnan(each.value) else f"{scale * each.value:{form}}", low_high, *p_value]


def sentences(found: Reproduced) -> list[str]:
    """Returns the figures of all items with the verdict, the comparison with the baseline, and what was not asked, with the
    reasons."""
    if not found.figures:
        return []
    values = ", ".join(f"{each.metric} {number(each.value)}" for each in found.figures if not each.group)
    name = short_name(found.model)
    verdict = "no published figure can be compared" if found.verdict == UNCOMPARED else found.verdict
    lines = [f"{name}, {found.asked} items: {values}; {verdict}", *_compared(found)]
    skipped = [*found.questions.read.skipped.lines(), *found.skipped.lines()]
    return lines + [f"{name}: {line}" for line in skipped]


def _compared(found: Reproduced) -> list[str]:
    """Returns the comparison of a model with the baseline on all items, by the first metric."""
    if not found.differences:
        return []
    first, name = found.differences[0], short_name(found.model)
    low_high = "no interval: the items are too few"
    if first.interval is not None:
        low_high = f"95 %: {first.interval.low:+.3f} to {first.interval.high:+.3f}, paired bootstrap"
    lines = [f"Of {first.items} items that both were asked, {first.metric} differs by {first.value:+.3f} ({low_high})."]
    share = next((each for each in found.differences if not each.group and is_share(each.metric)), None)
    if share is not None:
        lines.append(
            f"{name} alone has {share.only_model} right and {found.baseline} alone {share.only_baseline} ({share.metric}; "
            f"McNemar's exact test: p = {share.p_value:.3g})."
        )
    return lines


def percent(share: float) -> str:
    """Returns a share in percent; a dash for one that there is not."""
    return "–" if math.isnan(share) else f"{100 * share:.1f} %"


def number(value: float) -> str:
    """Returns a share to three digits; a dash for one that there is not."""
    return "–" if math.isnan(value) else f"{value:.3f}"
