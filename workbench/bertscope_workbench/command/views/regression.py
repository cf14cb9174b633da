"""Formats values of texts as lines, a table and JSON."""

from bertscope import PredictedValue, RankedCandidates
from rich.console import Console
from rich.text import Text

from bertscope_workbench.command.views.output import plural, printable, table


def print_value(screen: Console, answer: PredictedValue) -> None:
    """Prints the value and its text or pair in a line."""
    line = Text(f"{answer.value:10.4f}  ").append_text(printable(answer.text))
    if answer.text_pair is not None:
        line.append(" / ", style="dim").append_text(printable(answer.text_pair))
    screen.print(line)
    if answer.truncated_tokens:
        screen.print(f"{plural(answer.truncated_tokens, 'token')} cut away", style="yellow")


def print_ranking(screen: Console, query: str, ranked: RankedCandidates) -> None:
    """Prints the query, and a row for each candidate, highest value first."""
    screen.print(printable(query))
    result = table(["rank#", "value#", "candidate"])
    for rank, one in enumerate(ranked, start=1):
        result.add_row(str(rank), f"{one.value:.4f}", printable(one.candidate))
    screen.print(result)
    cut = sum(one.truncated_tokens > 0 for one in ranked)
    if cut:
        screen.print(f"{plural(cut, 'pair')} cut to what the model reads", style="yellow")
