"""`bertscope rank`: gradient importance of all heads."""

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from bertscope.cli import options, output_files
from bertscope.cli.intervention_options import InterventionOptions
from bertscope.cli.objective_options import ObjectiveOptions
from bertscope.cli.option_groups import grouped
from bertscope.cli.output import console, print_json, printable, titled
from bertscope.cli.progress import waiting
from bertscope.cli.server_options import ServerOptions
from bertscope.cli.sweep_view import layer_grid, print_left_out
from bertscope.ranking import HeadRanking
from bertscope.sweep_plots import save_ranking

LEAST = 10
"""Heads that are named under the table."""


@grouped
def rank(
    server: ServerOptions,
    objective: ObjectiveOptions,
    base: InterventionOptions,
    plot: Annotated[Path | None, typer.Option("--plot", metavar="FILE", help="Draw it: .png, .svg or .pdf.")] = None,
    model: options.ModelName = None,
    timeout: options.LongTimeout = None,
    json: options.Json = False,
) -> None:
    """Rank all heads by gradient importance, in one pass over a FILE that has a loss (prompts, texts, labelled)."""
    output_files.require_plot(plot)
    with objective.lines_named(), server.connect(timeout) as client, waiting("ranking"):
        ranking = client.rank_heads(
            objective.objective(),
            model=model,
            interventions=base.interventions(),
            reference_texts=base.reference_texts(),
            timeout=timeout,
        )
    if json:
        print_json(document(ranking))
    else:
        print_ranking(console(), ranking)
    if plot is not None:
        output_files.draw(lambda path: save_ranking(ranking, path), plot)
        if not json:
            console().print(f"wrote {plot}", soft_wrap=True)


def document(ranking: HeadRanking) -> dict[str, Any]:
    """The ranking as JSON has it, the least important head first in `order`."""
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
    """A row for each layer, a column for each head, and the least important heads."""
    title = Text(f"gradient importance, {ranking.items} items, loss {ranking.loss:.4f} nats, ", style="bold")
    screen.print(title.append_text(printable(ranking.provenance.model)))
    print_left_out(screen, ranking.skipped_items)
    rows = [[Text(f"{value:.2f}".removeprefix("0"), style=_style(value)) for value in row] for row in ranking.importance]
    screen.print(titled("l2-normalised within each layer", layer_grid(rows)))
    least = " ".join(f"{layer}:{head}" for layer, head in ranking.order()[:LEAST])
    screen.print(f"least important first: {least}")


def _style(value: float) -> str:
    return "bold cyan" if value >= 0.5 else "cyan" if value >= 0.3 else "dim" if value < 0.1 else ""
