"""Redo a paper on a hosted model: NAME of a study, or the path of a definition of yours.

"list" names the studies. Figures are printed beside published ones, and --output writes one page with all figures and tables.
"""

import importlib.util
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from bertscope import InvalidArgument

from bertscope_workbench.command import options
from bertscope_workbench.command.checked_commands import Commands, Group
from bertscope_workbench.command.groups import argument, option
from bertscope_workbench.command.options.items import GOES_ON, stopped_in_one_line
from bertscope_workbench.command.options.server import ServerOptions
from bertscope_workbench.command.views import files as output_files
from bertscope_workbench.command.views.output import Failure, UsageError, console, plural, printable
from bertscope_workbench.command.views.progress import studying, waiting
from bertscope_workbench.command.views.study import print_list, print_study
from bertscope_workbench.studies.dark_secrets import study_dark_secrets
from bertscope_workbench.studies.data import find_data, find_treebank
from bertscope_workbench.studies.declared import run_study
from bertscope_workbench.studies.declared_page import study_report
from bertscope_workbench.studies.definition import shipped
from bertscope_workbench.studies.layers import study_layers
from bertscope_workbench.studies.page import study_page
from bertscope_workbench.studies.readers import find_study, read_questions
from bertscope_workbench.studies.report import Study

PAGE_FORMATS = (".html",)
MOST_TEXTS = 1000
"""The texts of each file unless set, as many as the paper took."""

DECLARED = "declared"
"""Name of the hidden command that runs a declared study."""


class Studies(Group):
    """Takes a word that is no command as the name of a declared study."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Returns the command, and its arguments: of a declared study its name, too."""
        if self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            args = [DECLARED, *args]
        return super().resolve_command(ctx, args)


app = Commands(cls=Studies, help=__doc__)


@app.callback(invoke_without_command=True)
def study(context: typer.Context) -> None:
    """Prints the help without a command."""
    if context.invoked_subcommand is None:
        sys.stdout.write(context.get_help() + "\n")


@app.command("dark-secrets")
def dark_secrets(
    server: ServerOptions,
    data: Annotated[Path, option("--data DIR", "Treebanks and PropBank files (.conllu), labelled texts (.tsv, .csv, .jsonl).")],
    fine_tuned: Annotated[str | None, option("--fine-tuned MODEL", "The model's fine-tuned copy, for what changes.")] = None,
    output: Annotated[Path, option("--output PAGE.html", "The page to write.")] = Path("dark-secrets.html"),
    dark: Annotated[bool, option("--dark", "Draw on a dark page.")] = False,
    limit: Annotated[int, option("--limit N", "Take the first N texts of each file.", min=1)] = MOST_TEXTS,
    model: options.ModelName = None,
    timeout: options.Timeout = options.TIMEOUT,
) -> None:
    """Redo Kovaleva et al. 2019, "Revealing the Dark Secrets of BERT", sections 4.1 to 4.6, with the data of a folder.

    Files are known by what they contain. What they don't allow for is named on the page as left out.
    """
    output_files.require_output(output, PAGE_FORMATS)
    require_matplotlib()
    with waiting(f"reading {data}"):
        found = find_data(data, limit)
    with server.connect(timeout) as client, studying() as show:
        study = study_dark_secrets(client, found, model=model, fine_tuned=fine_tuned, dark=dark, timeout=timeout, on_stage=show)
    write_page(study, output, dark=dark)


@app.command("layers")
def layers(
    server: ServerOptions,
    data: Annotated[Path, option("--data DIR", "A treebank (.conllu): files to train, stop and test, or one.")],
    output: Annotated[Path, option("--output PAGE.html", "The page to write.")] = Path("layers.html"),
    dark: Annotated[bool, option("--dark", "Draw on a dark page.")] = False,
    limit: Annotated[int, option("--limit N", "Take the first N sentences of each file.", min=1)] = MOST_TEXTS,
    model: options.ModelName = None,
    timeout: options.LongTimeout = None,
) -> None:
    """Ask what each layer holds: geometry, the prediction at every layer, probes of a treebank's labels.

    The sentences of a single file are divided: of ten, eight train, one stops training, one tests.
    """
    output_files.require_output(output, PAGE_FORMATS)
    require_matplotlib()
    with server.connect(timeout) as client, studying() as show:
        study = study_layers(client, find_treebank(data, limit), model=model, dark=dark, timeout=timeout, on_stage=show)
    write_page(study, output, dark=dark)


def require_matplotlib() -> None:
    """Raises Failure without matplotlib."""
    if importlib.util.find_spec("matplotlib") is None:
        raise Failure("figures need matplotlib: pip install matplotlib")


def write_page(study: Study, output: Path, *, dark: bool) -> None:
    """Writes a study, and says which sections are left out."""
    missing = [section.question.number for section in study.sections if section.empty]
    with output_files.written(output) as file:
        file.write(study_page(study, dark=dark))
    screen = console()
    if missing:
        screen.print(f"left out: {plural(len(missing), 'section')}, {', '.join(missing)}; the page says why", style="yellow")
    screen.print(printable(f"wrote {output}"), soft_wrap=True)


@app.command("list")
def list_studies() -> None:
    """Name the studies, their parts, and the files that each needs."""
    print_list(console(), [find_study(name) for name in shipped()])


@app.command(DECLARED, hidden=True)
def declared(
    server: ServerOptions,
    name: Annotated[str, argument("NAME", "A study, or the path of a definition (.toml).")],
    data: Annotated[Path | None, option("--data DIR", "The folder with the study's files, as they were published.")] = None,
    baseline: Annotated[str | None, option("--baseline MODEL", "A second model, to compare with.")] = None,
    output: Annotated[Path | None, option("--output PAGE.html", "The page to write.")] = None,
    dark: Annotated[bool, option("--dark", "Draw on a dark page.")] = False,
    limit: Annotated[int | None, option("--limit N", "Take the first N items of each file.", min=1)] = None,
    vocabulary: Annotated[
        Path | None, option("--vocabulary FILE", "Rank blanks and facts among these words: one a line, as LAMA's.")
    ] = None,
    only: Annotated[list[str] | None, option("--only PART", "Ask this part alone. Repeatable.")] = None,
    rows: Annotated[
        Path | None, option("--rows FOLDER", "Keep the answers in this folder, a file for each part and model.")
    ] = None,
    resume: Annotated[bool, option("--resume", "Go on with the answers in the folder; begin if there are none.")] = False,
    model: options.ModelName = None,
    timeout: options.Timeout = options.TIMEOUT,
) -> None:
    """Redo a declared study: print its figures beside published ones, and write them as one page.

    With --rows, each answer is kept as it comes, and --resume goes on with a study that was cut short.
    """
    if resume and rows is None:
        raise UsageError("--resume goes with --rows FOLDER")
    output_files.require_output(output, PAGE_FORMATS)
    if output is not None:
        require_matplotlib()
    try:
        definition = find_study(name)
        with waiting(f"reading {data or definition.name}"):
            questions = read_questions(definition, data, limit=limit, only=only or (), vocabulary=vocabulary)
    except OSError as error:
        raise Failure(f"{error.filename}: {error.strerror}") from error
    except InvalidArgument as error:
        raise Failure(f"{error.field_violations[0].field}: {error.message}") from error
    asked = False

    def how() -> str:
        return f"; {rows} keeps the answers so far: {GOES_ON}" if asked and rows is not None else ""

    with server.connect(timeout) as client, stopped_in_one_line(rows, how) as check, studying() as show:

        def on_stage(stage: str, done: int, total: int | None) -> None:
            nonlocal asked
            asked = True
            check()
            show(stage, done, total)

        result = run_study(
            client,
            definition,
            questions,
            model=model,
            baseline=baseline,
            rows=rows,
            resume=resume,
            timeout=timeout,
            on_stage=on_stage,
        )
    screen = console()
    try:
        print_study(screen, result)
    finally:  # Also when nobody reads what it prints.
        if output is not None:
            with output_files.written(output) as file:
                file.write(study_page(study_report(result, data, dark=dark), dark=dark))
    if output is not None:
        screen.print(printable(f"wrote {output}"), soft_wrap=True)
