"""Remove heads from a model's weights; what is left is a new model, and the old one stays.

Says which heads by --heads, or by --least and a FILE to rank them on.
"""

from typing import Annotated

from bertscope.values.documents import document_of

from bertscope_workbench.command import options
from bertscope_workbench.command.groups import Offered, option
from bertscope_workbench.command.options import specifications
from bertscope_workbench.command.options.objectives import ObjectiveOptions
from bertscope_workbench.command.options.ranking import RankingOptions
from bertscope_workbench.command.options.results import print_result
from bertscope_workbench.command.options.server import ServerOptions
from bertscope_workbench.command.views.models import print_models
from bertscope_workbench.command.views.output import Failure, UsageError
from bertscope_workbench.command.views.progress import waiting


def prune(
    *,
    server: ServerOptions,
    objective: ObjectiveOptions,
    name: Annotated[str, option("--name NEW", "The id that the new model gets.")],
    heads: Annotated[list[str] | None, option("--heads L[:H,H]", "Heads to remove: 3:1,4, or all of 5. Repeatable.")] = None,
    least: Annotated[
        float | None, option("--least SHARE", "Remove this share, the least important by a FILE.", min=0, max=1)
    ] = None,
    way: RankingOptions,
    folder: Annotated[str | None, option("--folder DIR", "Where the server saves it, too.")] = None,
    call: Annotated[options.LongCallOptions, Offered("model", "timeout", "json")],
) -> None:
    if (heads is None) == (least is None):
        raise UsageError("say which heads: --heads, or --least with a file to rank them on")
    if heads is not None and objective.given:
        raise UsageError("a file to rank heads on goes with --least, not with --heads")
    if heads is not None and way.ablation:
        raise UsageError("--ablation goes with --least, not with --heads")
    way.check()
    with objective.lines_named(), server.connect(call.timeout) as client:
        if least is None:
            chosen = specifications.all_heads("--heads", heads or [])
        else:
            ranking = way.rank(client, objective, model=call.model, timeout=call.timeout)
            chosen = dict(way.least(ranking, least))
            if not chosen:
                raise Failure(f"--least {least:g} is less than one head; say more")
        with waiting("pruning"):
            pruned = client.prune_heads(name, chosen, model=call.model, folder=folder, timeout=call.timeout)
    print_result(pruned, document_of, lambda screen, model: print_models(screen, [model]), json=call.json)
