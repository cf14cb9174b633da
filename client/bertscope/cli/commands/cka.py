"""Show how alike the states of each two layers are, of one model or of two (linear CKA)."""

from functools import partial
from typing import Annotated

import typer

from bertscope.cli import options
from bertscope.cli.options import specifications
from bertscope.cli.options.describing import TextFileOptions
from bertscope.cli.options.groups import Offered, grouped
from bertscope.cli.options.interventions import InterventionOptions
from bertscope.cli.options.results import OutputOptions, print_result
from bertscope.cli.options.server import ServerOptions
from bertscope.cli.views.cka import print_representations
from bertscope.cli.views.progress import answering
from bertscope.plots.representation_comparison import save_representations
from bertscope.representations.comparison import comparison_columns, comparison_document


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
