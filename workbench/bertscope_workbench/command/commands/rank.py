"""Rank all heads by gradient importance, in one pass over a FILE that has a loss (prompts, texts, labelled, rated)."""

from functools import partial
from typing import Annotated

from bertscope_workbench.command import options
from bertscope_workbench.command.options.groups import Offered, grouped
from bertscope_workbench.command.options.interventions import InterventionOptions
from bertscope_workbench.command.options.objectives import ObjectiveOptions
from bertscope_workbench.command.options.results import OutputOptions, print_result, print_written
from bertscope_workbench.command.options.server import ServerOptions
from bertscope_workbench.command.views.output import console
from bertscope_workbench.command.views.progress import waiting
from bertscope_workbench.command.views.ranking import document, print_ranking
from bertscope_workbench.plots.sweeps import save_ranking


@grouped
def rank(
    *,
    server: ServerOptions,
    objective: ObjectiveOptions,
    base: InterventionOptions,
    out: Annotated[OutputOptions, Offered("plot", "dark")],
    call: Annotated[options.LongCallOptions, Offered("model", "timeout", "json")],
) -> None:
    with objective.lines_named(), server.connect(call.timeout) as client, waiting("ranking"):
        ranking = client.rank_heads(objective.objective(), model=call.model, timeout=call.timeout, **base.arguments())
    print_result(ranking, document, print_ranking, json=call.json)
    written = out.write((), partial(save_ranking, ranking))
    if not call.json:
        print_written(console(), written)
