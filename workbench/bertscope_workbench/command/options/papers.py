"""Runs claims for `primer` and `study`: their options, the questions, the table on the screen, the page and its files."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from bertscope import Client, InvalidArgument

from bertscope_workbench.command import options
from bertscope_workbench.command.groups import flag, option
from bertscope_workbench.command.options.items import GOES_ON, stopped_in_one_line
from bertscope_workbench.command.options.models import distinct
from bertscope_workbench.command.options.server import ServerOptions
from bertscope_workbench.command.views import files as output_files
from bertscope_workbench.command.views.claims import print_claims, print_results
from bertscope_workbench.command.views.output import Failure, UsageError, console, print_json, printable
from bertscope_workbench.command.views.progress import asking_claims
from bertscope_workbench.command.views.table_files import require_table, write_table
from bertscope_workbench.papers.claim import Claim
from bertscope_workbench.papers.documents import COLUMNS, claims_document, claims_rows
from bertscope_workbench.papers.film import run_film
from bertscope_workbench.papers.items import Data
from bertscope_workbench.papers.kept_results import KeptResults
from bertscope_workbench.papers.run import ClaimsProgress, ClaimsRun, Compared, OnProgress, run_claims

PAGE_FORMATS = (".html",)
T = TypeVar("T")


@dataclass(frozen=True)
class PaperOptions:
    """Options of the models, the data, and the files that are written."""

    list_claims: bool = flag("--list", "Name the claims, and ask nothing.")
    only: list[str] | None = option("--only CLAIM", "Ask this claim or section alone. Repeatable.")
    data: Path | None = option("--data DIR", "Public data, as published: treebanks, BLiMP, facts and so on.")
    limit: int | None = option("--limit N", "Take the first N items of each file.", min=1)
    vocabulary: Path | None = option("--vocabulary FILE", "Rank blanks and facts among these words: one a line, as LAMA's.")
    language: list[str] | None = option("--language CODE", "The language to ask in: en, ko. Repeatable.")
    against: str | None = option("--against MODEL", "A larger model, for claims about size.")
    baseline: str | None = option("--baseline MODEL", "A model to ask, too, and to compare figures with, item by item.")
    fine_tuned: str | None = option("--fine-tuned MODEL", "The model's fine-tuned copy, for what changes.")
    revisions: list[str] | None = option(
        "--revision REV",
        "A checkpoint of the model: a hub revision or a folder on the server. Repeatable, in order.",
        without="baseline",
    )
    output: Path | None = option("--output PAGE.html", "The page to write; .json and .parquet go beside it.")
    dark: bool = flag("--dark", "Make the page dark, whatever its reader's system prefers.")
    rows: Path | None = option("--rows FOLDER", "Keep the answers in this folder, also when all are there.")
    resume: bool = flag("--resume", "Go on with a run that was cut short; begin if there is none.")
    model: list[str] | None = option(
        "--model NAME", "A model to ask; the default model unless set. Repeatable.", callback=distinct
    )
    timeout: options.LongTimeout = None
    as_json: options.Json = False

    def run(self, server: ServerOptions, name: str, read: Callable[[Sequence[str]], Sequence[Claim]], title: str = "") -> None:
        """Asks the claims that `read` returns for the names of --only, prints the table, and writes page and files. The title
        is that of the claims unless given."""
        claims = read_claims_of(lambda: read(self.only or ()))
        if self.list_claims:
            print_claims(console(), claims)
            return
        if self.revisions and self.model and len(self.model) > 1:
            raise UsageError("--revision goes with one --model")
        output = self.output or Path(f"{name}.html")
        output_files.require_output(output, PAGE_FORMATS)
        output_files.require_matplotlib()
        require_table(output.with_suffix(".parquet"))
        folder = self.rows or output.with_suffix(".kept")
        kept = KeptResults(folder, resume=self.resume, stays=self.rows is not None)

        def how() -> str:
            return f"; {folder} keeps the answers so far: {GOES_ON}" if kept.answered else ""

        with server.connect(self.timeout) as client, stopped_in_one_line(folder, how) as check, asking_claims() as show:

            def on_progress(progress: ClaimsProgress) -> None:
                check()
                show(progress)

            own = (folder, output.with_suffix(".json"))
            result = self._ask(client, claims, kept, on_progress, name, title or claims[0].section_title, own)
        _write(result, output, dark=self.dark)
        kept.finish()
        if self.as_json:
            print_json(claims_document(result))
            return
        screen = console()
        print_results(screen, result)
        written = (output, output.with_suffix(".json"), output.with_suffix(".parquet"))
        screen.print(printable("wrote {}, {} and {}".format(*written)), soft_wrap=True)

    def _ask(
        self,
        client: Client,
        claims: Sequence[Claim],
        kept: KeptResults,
        on_progress: OnProgress,
        name: str,
        title: str,
        own: tuple[Path, ...],
    ) -> ClaimsRun:
        languages = tuple(each.lower() for each in self.language or ("en",))
        shared: dict[str, Any] = {
            "data": Data(self.data, self.limit, self.vocabulary, own),
            "compared": Compared(self.against, self.fine_tuned, self.baseline, languages),
            "kept": kept,
            "timeout": self.timeout,
            "on_progress": on_progress,
            "name": name,
            "title": title,
        }
        try:
            if self.revisions:
                return run_film(client, claims, self.revisions, model=self.model[0] if self.model else None, **shared)
            return run_claims(client, claims, models=self.model or (None,), **shared)
        except OSError as error:
            raise Failure(f"{error.filename}: {error.strerror}") from error


def read_claims_of(read: Callable[[], T]) -> T:
    """Returns what is read from files of claims. Raises Failure, naming the file and the place in it."""
    try:
        return read()
    except OSError as error:
        raise Failure(f"{error.filename}: {error.strerror}") from error
    except InvalidArgument as error:
        raise Failure(f"{error.field_violations[0].field}: {error.message}") from error


def _write(result: ClaimsRun, output: Path, *, dark: bool) -> None:
    """Writes the page and the files beside it: all are made before one is written."""
    from bertscope_workbench.papers.page import claims_page

    texts = {
        output: claims_page(result, dark=dark),
        output.with_suffix(".json"): json.dumps(claims_document(result), allow_nan=False),
    }
    for path, text in texts.items():
        with output_files.written(path) as file:
            file.write(text)
    write_table(COLUMNS, claims_rows(result), output.with_suffix(".parquet"))
