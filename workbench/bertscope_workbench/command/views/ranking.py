"""Formats a ranking of heads as a table and as JSON."""

import dataclasses
from typing import Any

from bertscope import HeadRanking
from rich.console import Console
from rich.text import Text

from bertscope_workbench.command.views.output import printable, titled
from bertscope_workbench.command.views.sweep import layer_grid, print_left_out

LEAST = 10
"""The number of heads named under the table."""


def document(ranking: HeadRanking) -> dict[str, Any]:
    """Returns the ranking in JSON types, the least important head first in `order`."""
    return {
        "importance": ranking.importance.tolist(),
        "gradient": ranking.gradient.tolist(),
        "order": [{"layer": layer, "head": head} for layer, head in ranking.order()],
        "items": ranking.items,
        "skipped_items": ranking.skipped_items,
        "loss": ranking.loss,
        "provenance": dataclasses.asdict(ranking.provenance),
    }


def print_ranking(screen: Console, ranking: HeadRanking) -> None:
    """Prints a row for each layer, a column for each head, and the least important heads."""
    title = Text(f"gradient importance, {ranking.items} items, loss {ranking.loss:.4f}, ", style="bold")
    screen.print(title.append_text(printable(ranking.provenance.model)))
    print_left_out(screen, ranking.skipped_items)
    rows = [[Text(f"{value:.2f}".removeprefix("0"), style=_style(value)) for value in row] for row in ranking.importance]
    screen.print(titled("l2-normalised within each layer", layer_grid(rows)))
    least = " ".join(f"{layer}:{head}" for layer, head in ranking.order()[:LEAST])
    screen.print(f"least important first: {least}")


def _style(value: float) -> str:
    return "bold cyan" if value >= 0.5 else "cyan" if value >= 0.3 else "dim" if value < 0.1 else ""
