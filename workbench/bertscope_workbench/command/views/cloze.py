"""Formats filled masks as tables and as JSON."""

import math
from collections.abc import Sequence

from bertscope import FilledMask, FilledText
from rich.console import Console
from rich.table import Table
from rich.text import Text

from bertscope_workbench.command.views.output import bar, print_cut, printable, probability, table


def print_answer(screen: Console, answer: FilledText) -> None:
    """Prints the text, and a table for each of its masks, or one of its fillings."""
    if answer.fillings:
        screen.print(_title(answer, answer.masks))
        screen.print(_fillings(answer))
    elif not answer.masks:
        screen.print(_title(answer, ()))
    for index, mask in enumerate(() if answer.fillings else answer.masks):
        title = _title(answer, [mask])
        if len(answer.masks) > 1:
            title.append(f"  (mask {index + 1} of {len(answer.masks)})", style="dim")
        screen.print(title)
        screen.print(_predictions(mask))
    if answer.next_sentence_probability is not None:
        follows = answer.next_sentence_probability
        screen.print(f"the second text follows the first: {probability(follows)}  {bar(follows)}")
    print_cut(screen, answer.truncated_tokens)


def _title(answer: FilledText, masks: Sequence[FilledMask]) -> Text:
    """Returns the text, and the second one below it, with some of its masks highlighted."""
    title = _highlighted(answer.text, [mask for mask in masks if mask.segment == 0])
    if answer.text_pair is not None:
        title.append("\n").append_text(_highlighted(answer.text_pair, [mask for mask in masks if mask.segment == 1]))
    return title


def _highlighted(text: str, masks: Sequence[FilledMask]) -> Text:
    title, done = Text(), 0
    for mask in masks:
        title.append_text(printable(text[done : mask.start]))
        title.append_text(Text(text[mask.start : mask.end], style="bold reverse"))
        done = mask.end
    return title.append_text(printable(text[done:]))


def _fillings(answer: FilledText) -> Table:
    """Returns the fillings, a column for each mask. Lengths are compared by the last number."""
    several = len(answer.masks) > 1
    tokens = [f"mask {number}" if several else "token" for number in range(1, len(answer.masks) + 1)]
    rows = (
        [order, *each.tokens, sum(len(span.pieces) for span in each.spans), each.log_probability, mean, math.exp(mean)]
        for order, each in enumerate(answer.fillings, start=1)
        for mean in [each.mean_log_probability]
    )
    return table(["#", *tokens, "pieces#", "log probability#.3f", "per piece#.3f", "#bar"], rows)


def _predictions(mask: FilledMask) -> Table:
    rows = (
        [each.rank, each.token, each.probability, each.probability if share is None else share, share, each.logit]
        for each in mask.predictions
        for share in [each.candidate_probability]
    )
    return table(["rank#", "token", "probability#p", "#bar", "among candidates#p", "logit#.4f"], rows)
