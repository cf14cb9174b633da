"""Makes tables, pictures and the page of a declared study."""

from __future__ import annotations

import math
from pathlib import Path

from bertscope.values.models import short_name

from bertscope_workbench.plots.figures import svg_bytes
from bertscope_workbench.studies.declared import Answers, PartResult, StudyResult
from bertscope_workbench.studies.definition import Part
from bertscope_workbench.studies.group_figures import WHOLE, plot_part
from bertscope_workbench.studies.inquiry import model_facts, percent
from bertscope_workbench.studies.measures import Difference, Measure, is_share
from bertscope_workbench.studies.report import Picture, Question, Section, Study, Table

METHODS = {
    "choice": "fill_mask",
    "blank": "fill_mask",
    "pair": "compare_texts",
    "association": "compare_texts",
    "fact": "query_facts",
}
"""Methods of `Client` by kind of item."""


def study_report(result: StudyResult, data: Path | None = None, *, dark: bool = False) -> Study:
    """Returns the report of a study, which `study_page` writes; `data` is the folder of its data."""
    names = ("model", "baseline")
    facts = [(name, model_facts(model)) for name, model in zip(names, result.models, strict=False)]
    facts.append(("study", result.definition.name))
    sections = [_section(result, part, data, dark) for part in result.parts]
    return Study(result.definition.title, result.definition.paper, facts, sections, ())


def _section(result: StudyResult, part: PartResult, data: Path | None, dark: bool) -> Section:
    asked = part.questions.part
    section = Section(Question(asked.name, asked.title, asked.asked, asked.definition, asked.paper))
    section.methods.append(METHODS["fact" if part.questions.by_facts else asked.ask])
    if not part.answers:
        section.left_out.append(part.questions.missing or "its files hold no item that can be asked")
        return section
    section.commands.append(_command(result, part, data))
    section.files += part.questions.read.files
    section.left_out += left_out(part)
    section.found += [found_line(asked, answers) for answers in part.answers] + comparison_lines(part)
    section.parts.append(figures_table(part))
    if part.differences:
        section.parts.append(difference_table(part))
    if asked.published:
        section.parts.append(verdict_table(part))
    if any(answers.asked for answers in part.answers):
        section.parts.append(Picture(f"{asked.title}, with 95 % intervals", svg_bytes(plot_part(part, dark=dark))))
    return section


def _command(result: StudyResult, part: PartResult, data: Path | None) -> str:
    words = ["bertscope study", result.definition.name, "--model", short_name(result.models[0])]
    if len(result.models) > 1:
        words += ["--baseline", short_name(result.models[1])]
    if data is not None:
        words += ["--data", str(data)]
    if part.questions.read.vocabulary_file is not None and not part.questions.part.vocabulary:
        words += ["--vocabulary", str(part.questions.read.vocabulary_file)]
    return " ".join(words)


def figures_table(part: PartResult) -> Table:
    """Returns all figures: a row for each group, columns for each model and metric."""
    metrics = part.questions.part.metrics
    columns, cells = ["group", "items#"], dict[str, list[str]]()
    for answers in part.answers:
        name = f"{short_name(answers.model)} " if len(part.answers) > 1 else ""
        by_name = {(measure.group, measure.metric): measure for measure in answers.measures}
        for metric in metrics:
            columns += [f"{name}{metric}#", *(["95 %#"] if is_share(metric) else [])]
        if any(measure.tied for measure in answers.measures):
            columns.append(f"{name}ties#")
        for measure in answers.measures:
            if measure.metric == metrics[0]:
                row = cells.setdefault(measure.group, [measure.group or WHOLE, str(measure.items)])
                for metric in metrics:
                    row += _cells(by_name[measure.group, metric])
                if any(each.tied for each in answers.measures):
                    row.append(str(measure.tied))
    rows = [row + ["–"] * (len(columns) - len(row)) for row in cells.values()]
    mean = "; all: mean over groups" if part.questions.part.mean == "groups" else ""
    return Table(f"{part.questions.part.title}{mean}{_among(part)}", columns, rows)


def _among(part: PartResult) -> str:
    """Returns the vocabulary that ranks are among, if it is not the model's."""
    read = part.questions.read
    return f"; ranks among the {len(read.vocabulary):,} words of {read.vocabulary_file.name}" if read.vocabulary_file else ""


def _cells(measure: Measure) -> list[str]:
    if not is_share(measure.metric):
        return [number(measure.value)]
    interval = "–" if math.isnan(measure.low) else f"{100 * measure.low:.1f} to {100 * measure.high:.1f}"
    return [percent(measure.value), interval]


def verdict_table(part: PartResult) -> Table:
    """Returns published figures beside those of the models."""
    rows = []
    for answers in part.answers:
        for each in answers.verdicts:
            published = each.published
            rows.append(
                [
                    published.model,
                    f"{published.metric}{f', {published.group}' if published.group else ''}",
                    f"{published.value:.3f} ± {published.tolerance:g}",
                    each.model,
                    number(each.value),
                    each.verdict,
                    published.source,
                ]
            )
    columns = ["published of", "figure", "published#", "here", "here#", "verdict", "source"]
    return Table("published figures", columns, rows)


def verdict_line(answers: Answers) -> str:
    """Returns the verdict on a part in one sentence."""
    name = short_name(answers.model)
    own = [each for each in answers.verdicts if each.verdict != "another model"]
    if not own:
        return f"{name}: no published figure for these weights"
    return f"{name}: " + "; ".join(
        f"{each.verdict} ({each.published.metric} {number(each.value)}, published {each.published.value:.3f})" for each in own
    )


def found_line(part: Part, answers: Answers) -> str:
    """Returns the figures of a whole part, with the verdict."""
    whole = [measure for measure in answers.measures if not measure.group]
    values = ", ".join(f"{measure.metric} {number(measure.value)}" for measure in whole)
    return f"{short_name(answers.model)}, {answers.asked} items: {values}. {verdict_line(answers)}."


def comparison_lines(part: PartResult) -> list[str]:
    """Returns the comparison of the model with the baseline on the whole part, by its first metric."""
    if not part.differences:
        return []
    found, names = part.differences[0], [short_name(answers.model) for answers in part.answers]
    low_high = "no interval: the items are too few"
    if found.interval is not None:
        low_high = f"95 %: {found.interval.low:+.3f} to {found.interval.high:+.3f}, paired bootstrap"
    lines = [f"Of {found.items} items that both were asked, {found.metric} differs by {found.value:+.3f} ({low_high})."]
    share = next((each for each in part.differences if not each.group and is_share(each.metric)), None)
    if share is not None:
        lines.append(
            f"{names[0]} alone has {share.only_model} right and {names[1]} alone {share.only_baseline} ({share.metric}; "
            f"McNemar's exact test: p = {share.p_value:.3g})."
        )
    return lines


def difference_table(part: PartResult) -> Table:
    """Returns the differences of two models: a row for each group, columns for each metric; shares in points of 100."""
    metrics = dict.fromkeys(each.metric for each in part.differences)
    columns, cells = ["group", "items#"], dict[str, list[str]]()
    for metric in metrics:
        columns += [f"{metric}{', points' if is_share(metric) else ''}#", "95 %#", *(["p#"] if is_share(metric) else [])]
    for each in part.differences:
        row = cells.setdefault(each.group, [each.group or WHOLE, str(each.items)])
        row += _difference_cells(each)
    names = [short_name(answers.model) for answers in part.answers]
    caption = f"{names[0]} minus {names[1]}, of the items that both were asked; 95 %: paired bootstrap; p: McNemar's exact test"
    return Table(caption, columns, [*cells.values()])


def _difference_cells(each: Difference) -> list[str]:
    scale, form = (100, "+.1f") if is_share(each.metric) else (1, "+.3f")
    low_high = "–"
    if each.interval is not None:
        low_high = f"{scale * each.interval.low:{form}} to {scale * each.interval.high:{form}}"
    p_value = [f"{each.p_value:.2g}"] if is_share(each.metric) else []
    return ["–" if math.isnan(each.value) else f"{scale * each.value:{form}}", low_high, *p_value]


def left_out(part: PartResult) -> list[str]:
    """Returns the items that were not asked, with reasons."""
    lines = part.questions.read.skipped.lines()
    for answers in part.answers:
        lines += [f"{short_name(answers.model)}: {line}" for line in answers.skipped.lines()]
    return lines


def number(value: float) -> str:
    """Returns a share to three digits; a dash for one that there is not."""
    return "–" if math.isnan(value) else f"{value:.3f}"
