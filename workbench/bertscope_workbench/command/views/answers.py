"""Formats answers to questions as tables and as JSON."""

import dataclasses
from typing import Any

from bertscope import AnsweredQuestion
from rich.console import Console

from bertscope_workbench.command.views.output import bar, plural, printable, probability, table

SHOWN_PASSAGE = 60
"""Most characters of a passage in a title."""


def fields(answer: AnsweredQuestion) -> dict[str, Any]:
    """Returns an answer in JSON types, without the passage, which the caller has."""
    return {name: value for name, value in dataclasses.asdict(answer).items() if name != "passage"}


def print_answer(screen: Console, answer: AnsweredQuestion) -> None:
    """Prints the question, and a row for each span and for no answer."""
    passage = answer.passage if len(answer.passage) <= SHOWN_PASSAGE else answer.passage[: SHOWN_PASSAGE - 3] + "..."
    screen.print(printable(answer.question).append(" / ", style="dim").append_text(printable(passage)))
    result = table(["answer", "characters#", "probability#", "", "score#"])
    for span in answer.spans:
        place = f"{span.start}-{span.end}"
        result.add_row(printable(span.text), place, probability(span.probability), bar(span.probability), f"{span.score:.3f}")
    score = answer.spans[0].score + answer.no_answer_score
    missing = answer.no_answer_probability
    result.add_row("(no answer)", "", probability(missing), bar(missing), f"{score:.3f}", style="dim")
    screen.print(result)
    if answer.windows > 1:
        screen.print(f"the passage was read in {plural(answer.windows, 'window')}", style="dim")
