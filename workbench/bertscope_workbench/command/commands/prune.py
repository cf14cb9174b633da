"""Remove heads from a model's weights; what is left is a new model, and the old one stays.

Example:

  bertscope prune 3:1,4 5:2 --name pruned
"""

from typing import Annotated, Any

from bertscope import Client
from bertscope.values.documents import document_of

from bertscope_workbench.command import options
from bertscope_workbench.command.checked_commands import modes
from bertscope_workbench.command.groups import argument, each, offered, option
from bertscope_workbench.command.options import specifications
from bertscope_workbench.command.options.objectives import ObjectiveOptions
from bertscope_workbench.command.options.ranking import RankingOptions
from bertscope_workbench.command.options.results import print_result
from bertscope_workbench.command.options.server import ServerOptions
from bertscope_workbench.command.views.models import print_models
from bertscope_workbench.command.views.output import Failure
from bertscope_workbench.command.views.progress import waiting

app = modes("prune", __doc__, heads="heads L:H,H", least="least SHARE --texts FILE")

Name = Annotated[str, option("--name NEW", "The id that the new model gets.")]
Folder = Annotated[str | None, option("--folder DIR", "Where the server saves it, too.")]
CallOptions = Annotated[options.LongCallOptions, offered("model", "timeout", "json")]


@app.command("heads", help=__doc__)
def heads(
    *,
    heads: list[str] = argument("L[:H,H]...", "Heads to remove: 3:1,4, or all of 5."),
    name: Name,
    folder: Folder = None,
    call: CallOptions,
    server: ServerOptions,
) -> None:
    chosen = specifications.all_heads(each("L:H,H", specifications.head_set, heads))
    with server.connect(call.timeout) as client:
        remove(client, name, chosen, folder, call)


@app.command("least")
def least(
    *,
    share: float = argument("SHARE", "The share of the heads to remove.", min=0, max=1),
    objective: ObjectiveOptions,
    way: RankingOptions,
    name: Name,
    folder: Folder = None,
    call: CallOptions,
    server: ServerOptions,
) -> None:
    """Remove the share of the heads that is least important by a FILE to rank them on.

    Example:

      bertscope prune least 0.2 --prompts examples/capitals.tsv --name lean
    """
    with objective.lines_named(), server.connect(call.timeout) as client:
        ranking = way.rank(client, objective, model=call.model, timeout=call.timeout)
        chosen = dict(way.least(ranking, share))
        if not chosen:
            raise Failure(f"a share of {share:g} is less than one head; say more")
        remove(client, name, chosen, folder, call)


def remove(client: Client, name: str, chosen: Any, folder: str | None, call: options.LongCallOptions) -> None:
    """Removes the heads, and prints the model that is left."""
    with waiting("pruning"):
        pruned = client.prune_heads(name, chosen, model=call.model, folder=folder, timeout=call.timeout)
    print_result(pruned, document_of, lambda screen, model: print_models(screen, [model]), json=call.json)
