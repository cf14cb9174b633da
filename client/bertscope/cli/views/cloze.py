"""Formats filled masks as tables and as JSON."""

import dataclasses
from typing import Any

from rich.console import Console
from rich.text import Text

from bertscope.cli.options.texts import provenance_once
from bertscope.cli.views.output import bar, printable, probability, table
from bertscope.cloze import FilledMask, FilledText


def document(answers: list[FilledText]) -> dict[str, Any]:
    """Returns the answers in JSON types; the provenance, which they share, once."""
    return provenance_once([dataclasses.asdict(answer) for answer in answers])


def print_answer(screen: Console, answer: FilledText) -> None:
    """Prints the text, and a table for each of its masks."""
    for index, mask in enumerate(answer.masks):
        title = printable(answer.text[: mask.start])
        title.append_text(Text(answer.text[mask.start : mask.end], style="bold reverse"))
        title.append_text(printable(answer.text[mask.end :]))
        if len(answer.masks) > 1:
            title.append(f"  (mask {index + 1} of {len(answer.masks)})", style="dim")
        screen.print(title)
        screen.print(_predictions(mask))
    if answer.truncated_tokens:
        screen.print(f"{answer.truncated_tokens} tokens were cut away", style="yellow")


def _predictions(mask: FilledMask) -> Any:
    among_candidates = any(prediction.candidate_probability is not None for prediction in mask.predictions)
    columns = ["rank#", "token", "probability#", "", *(["among candidates#"] if among_candidates else [])]
    result = table(columns)
    for prediction in mask.predictions:
        share = prediction.candidate_probability
        result.add_row(
            "" if prediction.rank is None else str(prediction.rank),
            printable(prediction.token),
            probability(prediction.probability),
            bar(prediction.probability if share is None else share),
            *([probability(share)] if share is not None else []),
        )
    return result
