"""Rank all heads by gradient importance, in one pass over a FILE that has a loss (prompts, texts, labelled, rated)."""

from functools import partial
from typing import Annotated, Any

from bertscope import HeadRanking
from rich.console import Console
from rich.text import Text

from bertscope_workbench.command import options
from bertscope_workbench.command.groups import Offered
from bertscope_workbench.command.options.interventions import InterventionOptions
from bertscope_workbench.command.options.looks import LOOKS
from bertscope_workbench.command.options.objectives import ObjectiveOptions
from bertscope_workbench.command.options.results import OutputOptions, print_result
from bertscope_workbench.command.options.server import ServerOptions
from bertscope_workbench.command.views.output import fields_of, print_heading, titled
from bertscope_workbench.command.views.progress import waiting
from bertscope_workbench.command.views.sweep import layer_grid, print_left_out
from bertscope_workbench.plots.sweeps import save_ranking

LEAST = 10
"""The number of heads named under the table."""


def rank(
    *,
    server: ServerOptions,
    objective: ObjectiveOptions,
    base: InterventionOptions,
    out: Annotated[OutputOptions, Offered(*LOOKS)],
    call: Annotated[options.LongCallOptions, Offered("model", "timeout", "json")],
) -> None:
    with objective.lines_named(), server.connect(call.timeout) as client, waiting("ranking"):
        ranking = client.rank_heads(objective.objective(), model=call.model, timeout=call.timeout, **base.arguments())
    written = out.write((), partial(save_ranking, ranking))
    print_result(ranking, document, print_ranking, json=call.json, written=written)


def document(ranking: HeadRanking) -> dict[str, Any]:
    """Returns the ranking in JSON types, the least important head first in `order`."""
    order = {"order": [{"layer": layer, "head": head} for layer, head in ranking.order()]}
    counts = fields_of(ranking, "items", "skipped_items", "loss", "provenance")
    return fields_of(ranking, "importance", "gradient") | order | counts


def print_ranking(screen: Console, ranking: HeadRanking) -> None:
    """Prints a row for each layer, a column for each head, and the least important heads."""
    counts = f"{ranking.items} items", f"loss {ranking.loss:.4f}"
    print_heading(screen, ranking.provenance.model, "gradient importance", *counts)
    print_left_out(screen, ranking.skipped_items)
    rows = [[Text(f"{value:.2f}".removeprefix("0"), style=_style(value)) for value in row] for row in ranking.importance]
    screen.print(titled("l2-normalised within each layer", layer_grid(rows)))
    least = " ".join(f"{layer}:{head}" for layer, head in ranking.order()[:LEAST])
    screen.print(f"least important first: {least}")


def _style(value: float) -> str:
    return "bold cyan" if value >= 0.5 else "cyan" if value >= 0.3 else "dim" if value < 0.1 else ""
