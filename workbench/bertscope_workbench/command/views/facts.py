"""Prints what a model knows: P@1 and P@10 by relation, the macro-average, and what was skipped."""

import dataclasses
from operator import attrgetter
from typing import Any, NamedTuple

from bertscope import FactAnswers, FactScores
from bertscope.questions.facts.metrics import SHARES
from rich.console import Console
from rich.text import Text

from bertscope_workbench.command.views.output import plural, print_heading, shown, table, titled

REASONS = {
    "several_pieces": "no right object is a single entry of the vocabulary",
    "not_among_candidates": "no right object is among the candidates or the given vocabulary",
    "not_writable": "the model's vocabulary can't write any right object, or not in so few pieces",
    "too_long": "a question is longer than the model reads",
}
COLUMNS = {
    "prior_p_at_1": "no subject#%",
    "consistency": "consistent#%",
    "consistent_p_at_1": "right in all#%",
    "same_if_negated": "same if negated#%",
    "misprimed": "misprimed#%",
    "unprimed_p_at_1": "P@1 unprimed#%",
    "primed_p_at_1": "primed#%",
}
"""The columns of metrics that few calls ask for."""


class LeftOut(NamedTuple):
    """The numbers of facts that LAMA-UHN's filters leave out: string match, and person name alone."""

    by_string: int
    by_name: int


def document(answers: FactAnswers, scores: FactScores, easy: LeftOut | None) -> dict[str, Any]:
    """Returns the metrics in JSON types."""
    return {
        "facts": scores.facts,
        "skipped": scores.skipped,
        "easy": None if easy is None else easy._asdict(),
        "scoring": answers.scoring,
        "template": scores.template,
        "vocabulary_left_out": answers.vocabulary_left_out,
        "macro": {"p_at_1": scores.p_at_1, "p_at_10": scores.p_at_10, "mrr": scores.mrr} | _macros(scores),
        "relations": [
            dataclasses.asdict(each) | {"p_at_1": each.p_at_1._asdict(), "p_at_10": each.p_at_10._asdict()}
            for each in scores.relations
        ],
        "provenance": dataclasses.asdict(answers.provenance),
    }


def print_scores(screen: Console, answers: FactAnswers, scores: FactScores, easy: LeftOut | None) -> None:
    """Prints a row for each relation and the macro-average, and what was left out."""
    counted = f"{plural(scores.facts, 'fact')} of {plural(len(scores.relations), 'relation')}"
    print_heading(screen, answers.provenance.model, counted)
    rows: list[list[Any]] = []
    for each in scores.relations:
        first, tenth = ([rank.value, rank[1:] if scores.template != "mean" else None] for rank in (each.p_at_1, each.p_at_10))
        among = each.ranked_among if each.facts else ""
        rows.append([each.relation, each.facts, *first, *tenth, each.mrr, among, *(getattr(each, name) for name in COLUMNS)])
    if len(scores.relations) > 1:
        macros = _macros(scores)
        rest = [shown(macros[name], "%") for name in COLUMNS]
        means = [shown(scores.p_at_1, "%"), "", shown(scores.p_at_10, "%"), "", shown(scores.mrr, ".3f"), "", *rest]
        rows.append([Text(str(cell), style="cyan") for cell in ("mean over relations", "", *means)])
    columns = ["relation", "facts#", "P@1#%", "95 %#100", "P@10#%", "95 %#100", "MRR#.3f", "among#", *COLUMNS.values()]
    by = {
        "first": "the first template",
        "best": "the template with the highest P@1 on these facts",
        "mean": "the mean over templates",
    }
    screen.print(titled(f"right objects of rank 1, and of rank 1 to 10, by {by[scores.template]}", table(columns, rows)))
    for reason, number in scores.skipped.items():
        screen.print(f"skipped: {plural(number, 'fact')}: {REASONS.get(reason, reason)}", style="yellow")
    if answers.vocabulary_left_out:
        words = plural(answers.vocabulary_left_out, "word")
        screen.print(f"left out of the given vocabulary: {words} of several entries, or of none", style="yellow")
    if easy is not None:
        left_out = f"{easy.by_string} by a right object in the subject, {easy.by_name} more by a part of its name"
        screen.print(f"left out as easy to guess: {left_out}", style="yellow")


def _macros(scores: FactScores) -> dict[str, float]:
    return {name: scores.macro(attrgetter(name)) for name in SHARES}
