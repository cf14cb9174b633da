"""Rank all heads by gradient importance, in one pass over a FILE that has a loss (prompts, texts, labelled, rated)."""

from functools import partial
from typing import Annotated

from bertscope.cli import options
from bertscope.cli.options.groups import Offered, grouped
from bertscope.cli.options.interventions import InterventionOptions
from bertscope.cli.options.objectives import ObjectiveOptions
from bertscope.cli.options.results import OutputOptions, print_result, print_written
from bertscope.cli.options.server import ServerOptions
from bertscope.cli.views.output import console
from bertscope.cli.views.progress import waiting
from bertscope.cli.views.ranking import document, print_ranking
from bertscope.plots.sweeps import save_ranking


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
