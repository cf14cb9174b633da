"""`bertscope rank`: gradient importance of all heads."""

from pathlib import Path
from typing import Annotated

import typer

from bertscope.cli import options
from bertscope.cli.options.groups import grouped
from bertscope.cli.options.interventions import InterventionOptions
from bertscope.cli.options.objectives import ObjectiveOptions
from bertscope.cli.options.server import ServerOptions
from bertscope.cli.views import files as output_files
from bertscope.cli.views.output import console, print_json
from bertscope.cli.views.progress import waiting
from bertscope.cli.views.ranking import document, print_ranking
from bertscope.plots.sweeps import save_ranking


@grouped
def rank(
    server: ServerOptions,
    objective: ObjectiveOptions,
    base: InterventionOptions,
    plot: Annotated[Path | None, typer.Option("--plot", metavar="FILE", help="Draw it: .png, .svg or .pdf.")] = None,
    dark: Annotated[bool, typer.Option("--dark", help="With --plot: draw on a dark page.")] = False,
    model: options.ModelName = None,
    timeout: options.LongTimeout = None,
    json: options.Json = False,
) -> None:
    """Rank all heads by gradient importance, in one pass over a FILE that has a loss (prompts, texts, labelled, rated)."""
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
        output_files.draw(lambda path: save_ranking(ranking, path, dark=dark), plot)
        if not json:
            console().print(f"wrote {plot}", soft_wrap=True)
