"""Rank all heads by gradient importance, in one pass over a FILE that has a loss (prompts, texts, labelled, rated).

--ablation ranks heads or layers by what a score loses without each, and takes any FILE and any runtime.

Example:

  bertscope rank --texts examples/sentences.txt
"""

from functools import partial
from typing import Any, Literal

from bertscope import HeadRanking, SweepTable
from bertscope.values.documents import fields_of
from rich.console import Console
from rich.text import Text

from bertscope_workbench.command import options
from bertscope_workbench.command.groups import offered, option
from bertscope_workbench.command.options.interventions import InterventionOptions
from bertscope_workbench.command.options.looks import LOOKS
from bertscope_workbench.command.options.objectives import ObjectiveOptions
from bertscope_workbench.command.options.ranking import RankingOptions
from bertscope_workbench.command.options.results import OutputOptions, print_result
from bertscope_workbench.command.options.server import ServerOptions
from bertscope_workbench.command.views import sweep_files
from bertscope_workbench.command.views.output import print_heading, titled
from bertscope_workbench.command.views.sweep import layer_grid, print_left_out, print_sweep
from bertscope_workbench.plots.sweeps import save_ranking, save_sweep

LEAST = 10
"""The number of heads named under the table."""
ROWS = 14
"""The number of effects in a table of ablations."""


def rank(
    *,
    server: ServerOptions,
    objective: ObjectiveOptions,
    base: InterventionOptions,
    way: RankingOptions,
    scope: Literal["heads", "layers"] | None = option(
        "--scope", "With --ablation: what is ranked; heads unless set.", needs="ablation"
    ),
    out: OutputOptions = offered(*LOOKS),
    call: options.LongCallOptions = offered("model", "timeout", "json"),
) -> None:
    with objective.lines_named(), server.connect(call.timeout) as client:
        ranking = way.rank(client, objective, scope or "heads", model=call.model, timeout=call.timeout, **base.arguments())
    if isinstance(ranking, HeadRanking):
        written = out.write({}, partial(save_ranking, ranking))
        print_result(ranking, document, print_ranking, json=call.json, written=written)
        return
    metric = ranking.metric(way.metric)
    written = out.write({}, lambda path, **look: save_sweep(ranking, path, metric, **look))
    show, in_json = partial(print_order, metric=metric), partial(order_document, metric=metric)
    print_result(ranking, in_json, show, json=call.json, written=written)


def document(ranking: HeadRanking) -> dict[str, Any]:
    """Returns the ranking in JSON types, the least important head first in `order`."""
    order = {"order": [{"layer": layer, "head": head} for layer, head in ranking.order()]}
    counts = fields_of(ranking, "items", "skipped_items", "loss", "provenance")
    return fields_of(ranking, "importance", "gradient") | order | counts


def order_document(found: SweepTable, *, metric: str) -> dict[str, Any]:
    """Returns the effects in JSON types, the least important head or layer first in `order`."""
    order = {"order": [{"layer": effect.layer, "head": effect.head} for effect in found.order(metric)]}
    return {"metric": metric, **order, **sweep_files.document(found)}


def print_order(screen: Console, found: SweepTable, *, metric: str) -> None:
    """Prints the effects of leaving out each head or layer, and which are the least important."""
    print_sweep(screen, found, metric, ROWS)
    first = found.order(metric)[:LEAST]
    least = " ".join(str(effect.layer) if found.scope == "layers" else effect.name for effect in first)
    screen.print(f"least important first, by {metric.replace('_', ' ')}: {least}")


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
