"""`bertscope lens`: what a model would predict at every layer."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console

from bertscope.choices import LensNormalisation
from bertscope.cli import options
from bertscope.cli.commands.lens_training import TunedLensOptions, train_lens
from bertscope.cli.options import specifications
from bertscope.cli.options.groups import grouped
from bertscope.cli.options.interventions import InterventionOptions
from bertscope.cli.options.server import ServerOptions
from bertscope.cli.views import files as output_files
from bertscope.cli.views.attribution import attribution_document, print_attribution
from bertscope.cli.views.lens import document, print_lens
from bertscope.cli.views.output import UsageError, console, print_json, printable
from bertscope.cli.views.progress import waiting
from bertscope.cli.views.table_files import require_table, write_files
from bertscope.plots.attribution import save_attribution
from bertscope.plots.lens import save_lens
from bertscope.representations.attribution import attribution_columns
from bertscope.representations.lens import lens_columns


@grouped
def lens(
    server: ServerOptions,
    base: InterventionOptions,
    tuned: TunedLensOptions,
    text: Annotated[
        str | None, typer.Argument(metavar="TEXT", help='The text, with "[MASK]" unless --all-pieces is set.')
    ] = None,
    pair: Annotated[str | None, typer.Option("--pair", metavar="TEXT", help="A second text, read with it.")] = None,
    layer: Annotated[
        list[str] | None,
        typer.Option(
            "--layer", "--layers", metavar="L[,L]", help="States: 0 the embeddings, k after layer k - 1; all unless set."
        ),
    ] = None,
    top_k: Annotated[
        int | None, typer.Option("--top-k", "-k", min=1, help="How many predictions at each layer; 5 unless set.")
    ] = None,
    candidates: Annotated[
        str | None,
        typer.Option(
            "--candidates", "--answers", metavar="A,B", help="Words to follow through the layers, with commas between."
        ),
    ] = None,
    all_pieces: Annotated[bool, typer.Option("--all-pieces", help="Read every piece, not only masks.")] = False,
    normalisation: Annotated[
        Literal["none", "final"] | None,
        typer.Option("--normalisation", help="Read states as they are, or after the model's last normalisation."),
    ] = None,
    attribute: Annotated[
        str | None,
        typer.Option(
            "--attribute",
            metavar="A,B",
            help="Instead, show what each head and feed-forward block adds to the logit of A minus that of B.",
        ),
    ] = None,
    mask: Annotated[
        int | None, typer.Option("--mask", min=0, help="With --attribute: which mask, from 0, if there are several.")
    ] = None,
    ablate: Annotated[
        bool, typer.Option("--ablate", help="With --attribute: also zero each head, and see how the difference falls.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", metavar="FILE", help="Write a row for each number: .csv, .tsv, .jsonl, .parquet."),
    ] = None,
    plot: Annotated[Path | None, typer.Option("--plot", metavar="FILE", help="Draw it: .png, .svg or .pdf.")] = None,
    dark: Annotated[bool, typer.Option("--dark", help="With --plot: draw on a dark page.")] = False,
    truncate: options.Truncate = False,
    model: options.ModelName = None,
    timeout: Annotated[
        float | None,
        typer.Option(
            "--timeout", min=0.001, metavar="SECONDS", help="How long an answer may take; with --train no limit unless set."
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Show what a model would predict at every layer, or with --attribute which of its parts favour an answer; with --train,
    train a tuned lens."""
    if dark and plot is None:
        raise UsageError("--dark goes with --plot")
    output_files.require_plot(plot)
    require_table(output)
    chosen: LensNormalisation | None = normalisation
    reading = {"--top-k": top_k, "--candidates": candidates, "--all-pieces": all_pieces}
    if tuned.train is not None:
        others = {
            "TEXT": text,
            "--pair": pair,
            "--lens": tuned.lens,
            "--attribute": attribute,
            "--mask": mask,
            "--ablate": ablate,
        }
        _refuse({**others, **reading, "--plot": plot}, "does not go with --train")
        numbers = None if layer is None else specifications.numbers("--layer", layer)
        given = {"model": model, "truncate": truncate, "timeout": timeout}
        train_lens(server, tuned, base, numbers, chosen, output, given, json=json)
        return
    tuned.require_train()
    if text is None:
        raise UsageError("give TEXT, or --train FILE")
    timeout = options.TIMEOUT if timeout is None else timeout
    asked: dict[str, Any] = {
        "model": model,
        "interventions": base.interventions(),
        "reference_texts": base.reference_texts(),
        "truncate": truncate,
        "timeout": timeout,
    }
    one = text if pair is None else (text, pair)
    if attribute is not None:
        lens_alone = {"--layer": layer, "--normalisation": normalisation, "--lens": tuned.lens}
        _refuse({**reading, **lens_alone}, "does not go with --attribute")
        words = specifications.words("--attribute", attribute)
        if len(words) != 2:
            raise UsageError(f"--attribute {attribute!r}: name two answers, A,B")
        with server.connect(timeout) as client, waiting("attributing"):
            (added,) = client.attribute_logits(one, (words[0], words[1]), mask=mask, ablate=ablate, **asked)
        columns = attribution_columns([added])
        written = write_files(columns, output, plot, lambda path: save_attribution(added, path, dark=dark))
        if json:
            print_json(attribution_document(added))
            return
        screen = console()
        print_attribution(screen, added)
        _print_written(screen, written)
        return
    _refuse({"--mask": mask, "--ablate": ablate}, "goes with --attribute")
    through = tuned.loaded()
    with server.connect(timeout) as client:
        found = client.read_layers(
            one,
            layers=specifications.numbers("--layer", layer),
            top_k=top_k,
            candidates=None if candidates is None else specifications.words("--candidates", candidates),
            all_pieces=all_pieces,
            normalisation=chosen,
            lens=through,
            **asked,
        )
    written = write_files(lens_columns(found), output, plot, lambda path: save_lens(found[0], path, dark=dark))
    if json:
        print_json(document(found))
        return
    screen = console()
    print_lens(screen, found[0])
    if tuned.lens is not None:
        screen.print(
            printable(f"states before the last went through the maps of {tuned.lens} first"), style="dim", soft_wrap=True
        )
    _print_written(screen, written)


def _refuse(given: dict[str, Any], why: str) -> None:
    """Rejects options that are set."""
    for option, value in given.items():
        if value is not None and value is not False:
            raise UsageError(f"{option} {why}")


def _print_written(screen: Console, written: list[Path]) -> None:
    for path in written:
        screen.print(f"wrote {path}", soft_wrap=True)
