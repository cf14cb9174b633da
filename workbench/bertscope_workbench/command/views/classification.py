"""Formats labels of texts as tables and as JSON."""

import dataclasses
from typing import Any

from bertscope import ClassifiedText
from rich.console import Console

from bertscope_workbench.command.views.output import bar, printable, probability, table


def fields(answer: ClassifiedText) -> dict[str, Any]:
    """Returns an answer in JSON types."""
    return dataclasses.asdict(answer) | {"label": answer.label}


def print_answer(screen: Console, answer: ClassifiedText) -> None:
    """Prints the text, and a row for each label."""
    title = printable(answer.text)
    if answer.text_pair is not None:
        title.append(" / ", style="dim").append_text(printable(answer.text_pair))
    screen.print(title)
    result = table(["label", "probability#", "", "logit#"])
    for label in answer.labels:
        result.add_row(printable(label.label), probability(label.probability), bar(label.probability), f"{label.logit:.3f}")
    screen.print(result)
    if answer.multi_label:
        screen.print("each label has its own probability; they do not sum to 1", style="dim")
    if answer.truncated_tokens:
        screen.print(f"{answer.truncated_tokens} tokens were cut away", style="yellow")
