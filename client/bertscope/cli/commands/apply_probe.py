"""`bertscope apply-probe`: a kept probe on other texts."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from bertscope.cli import options
from bertscope.cli.commands.probe import readable
from bertscope.cli.options import specifications
from bertscope.cli.options.groups import grouped
from bertscope.cli.options.interventions import InterventionOptions
from bertscope.cli.options.server import ServerOptions
from bertscope.cli.options.sources import Source
from bertscope.cli.views.apply_probe import document, print_applied
from bertscope.cli.views.output import console, print_json
from bertscope.cli.views.progress import answering
from bertscope.cli.views.table_files import require_table, write_table
from bertscope.representations.applied_probes import COLUMNS
from bertscope.representations.kept_probes import load_probe
from bertscope.representations.probe_files import read_span_texts


@grouped
def apply_probe(
    server: ServerOptions,
    base: InterventionOptions,
    probe: Annotated[Path, typer.Argument(metavar="PROBE", help="The file that `bertscope probe --keep` wrote.")],
    texts: Annotated[Path, typer.Argument(metavar="TEXTS", help="Texts with spans: .conllu, .tsv or .jsonl.")],
    label: Annotated[
        Literal["upos", "xpos", "deprel", "head", "depth", "arc"],
        typer.Option("--label", help="The column of a .conllu that the probe was trained to predict."),
    ] = "upos",
    layer: Annotated[
        list[str] | None,
        typer.Option("--layer", "--layers", metavar="L[,L]", help="Layers of the probe; all that it has unless set."),
    ] = None,
    any_weights: Annotated[
        bool, typer.Option("--any-weights", help="Apply it to a model with other weights, whose states mean something else.")
    ] = False,
    limit: Annotated[int | None, typer.Option("--limit", min=1, metavar="N", help="Take the first N texts.")] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", metavar="FILE", help="Write a row for each layer and span: .csv, .tsv, .jsonl or .parquet."),
    ] = None,
    truncate: options.Truncate = False,
    model: options.ModelName = None,
    timeout: options.Timeout = options.TIMEOUT,
    json: options.Json = False,
) -> None:
    """Classify words by a probe that was trained before, and show how often it is right."""
    require_table(output)
    kept = readable(probe, lambda: load_probe(probe))
    read = readable(texts, lambda: read_span_texts(texts, label, limit=limit))
    places = [f"{texts}, line {line}" for line in read.lines]
    source = Source(read, places, [str(problem) for problem in read.problems])
    with server.connect(timeout) as client, source.some_left(), answering("classifying") as show:
        found = client.apply_probe(
            kept,
            source.items,
            model=model,
            layers=None if layer is None else specifications.numbers("--layer", layer),
            any_weights=any_weights,
            truncate=truncate,
            interventions=base.interventions(),
            reference_texts=base.reference_texts(),
            on_progress=show,
            on_rejected=source.reject,
            timeout=timeout,
        )
    if output is not None:
        write_table(COLUMNS, found.rows(), output)
    if json:
        print_json(document(found) | {"left_out": source.left_out})
        return
    screen = console()
    source.print_left_out(screen)
    print_applied(screen, found)
    if output is not None:
        screen.print(f"wrote {output}", soft_wrap=True)
