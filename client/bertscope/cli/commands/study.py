"""`bertscope study dark-secrets`: a paper redone on a hosted model, as one page."""

import importlib.util
import sys
from pathlib import Path
from typing import Annotated

import typer

from bertscope.cli import options
from bertscope.cli.options.groups import grouped
from bertscope.cli.options.server import ServerOptions
from bertscope.cli.views import files as output_files
from bertscope.cli.views.output import Failure, console, plural, printable
from bertscope.cli.views.progress import studying, waiting
from bertscope.studies.dark_secrets import study_dark_secrets
from bertscope.studies.data import find_data
from bertscope.studies.page import study_page

PAGE_FORMATS = (".html",)
MOST_TEXTS = 1000
"""The texts of each file unless set, as many as the paper took."""

app = typer.Typer(help="Redo a paper on a hosted model, and write one page with all figures and tables.")


@app.callback(invoke_without_command=True)
def study(context: typer.Context) -> None:
    """Redo a paper on a hosted model, and write one page with all figures and tables."""
    if context.invoked_subcommand is None:
        sys.stdout.write(context.get_help() + "\n")


@app.command("dark-secrets")
@grouped
def dark_secrets(
    server: ServerOptions,
    data: Annotated[
        Path,
        typer.Option(
            "--data", metavar="DIR", help="Treebanks and PropBank files (.conllu), labelled texts (.tsv, .csv, .jsonl)."
        ),
    ],
    fine_tuned: Annotated[
        str | None, typer.Option("--fine-tuned", metavar="MODEL", help="The model's fine-tuned copy, for what changes.")
    ] = None,
    output: Annotated[Path, typer.Option("--output", metavar="PAGE.html", help="The page to write.")] = Path(
        "dark-secrets.html"
    ),
    dark: Annotated[bool, typer.Option("--dark", help="Draw on a dark page.")] = False,
    limit: Annotated[
        int, typer.Option("--limit", min=1, metavar="N", help="Take the first N texts of each file.")
    ] = MOST_TEXTS,
    model: options.ModelName = None,
    timeout: options.Timeout = options.TIMEOUT,
) -> None:
    """Redo Kovaleva et al. 2019, "Revealing the Dark Secrets of BERT", sections 4.1 to 4.6, with the data of a folder.

    Files are known by what they contain. What they don't allow for is named on the page as left out.
    """
    output_files.require_output(output, PAGE_FORMATS)
    if importlib.util.find_spec("matplotlib") is None:
        raise Failure("figures need matplotlib: pip install matplotlib")
    with waiting(f"reading {data}"):
        found = find_data(data, limit)
    with server.connect(timeout) as client, studying() as show:
        study = study_dark_secrets(client, found, model=model, fine_tuned=fine_tuned, dark=dark, timeout=timeout, on_stage=show)
    missing = [section.question.number for section in study.sections if section.empty]
    screen = console()
    if missing:
        screen.print(f"left out: {plural(len(missing), 'section')}, {', '.join(missing)}; the page says why", style="yellow")
    with output_files.written(output) as file:
        file.write(study_page(study, dark=dark))
    screen.print(printable(f"wrote {output}"), soft_wrap=True)
