"""Show how alike the states of each two layers are, of one model or of two (linear CKA)."""

from functools import partial
from typing import Annotated

import typer
from bertscope.questions.representations.comparison import comparison_columns, comparison_document

from bertscope_workbench.command import options
from bertscope_workbench.command.options import specifications
from bertscope_workbench.command.options.describing import TextFileOptions
from bertscope_workbench.command.options.groups import Offered, grouped
from bertscope_workbench.command.options.interventions import InterventionOptions
from bertscope_workbench.command.options.results import OutputOptions, print_result
from bertscope_workbench.command.options.server import ServerOptions
from bertscope_workbench.command.views.cka import print_representations
from bertscope_workbench.command.views.progress import answering
from bertscope_workbench.plots.representation_comparison import save_representations


@grouped
def cka(
    *,
    server: ServerOptions,
    base: InterventionOptions,
    file: TextFileOptions,
    compare: Annotated[
        str | None,
        typer.Option("--compare", metavar="MODEL", help="Compare with the layers of this model, under any interventions."),
    ] = None,
    layer: options.Layers = None,
    other_layer: Annotated[
        list[str] | None, typer.Option("--other-layer", metavar="L[,L]", help="Likewise, of the second model.")
    ] = None,
    out: Annotated[OutputOptions, Offered(output="Write a row for each two layers: .csv, .tsv, .jsonl or .parquet.")],
    call: options.CallOptions,
) -> None:
    source = file.source()
    with server.connect(call.timeout) as client, source.some_left(), answering("comparing") as show:
        found = client.compare_representations(
            source.items,
            compare,
            layers=specifications.numbers("--layer", layer),
            other_layers=specifications.numbers("--other-layer", other_layer),
            on_progress=show,
            on_rejected=source.reject,
            **base.arguments(),
            **call.arguments(),
        )
    written = out.write(comparison_columns(found), partial(save_representations, found))
    print_result(found, comparison_document, print_representations, json=call.json, written=written, source=source)
