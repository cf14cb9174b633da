"""Ask which claims of "A Primer in BERTology" and later papers hold for a model: a measurement, a control and a verdict each.

Writes one page that anybody can read, and beside it the same as .json and .parquet. Without --data, items that ship are asked.
"""

import json
from pathlib import Path
from typing import Annotated

from bertscope import Client, InvalidArgument

from bertscope_workbench.command import options
from bertscope_workbench.command.groups import option, refuse
from bertscope_workbench.command.options.items import GOES_ON, stopped_in_one_line
from bertscope_workbench.command.options.models import distinct
from bertscope_workbench.command.options.server import ServerOptions
from bertscope_workbench.command.views import files as output_files
from bertscope_workbench.command.views.output import Failure, console, print_json, printable
from bertscope_workbench.command.views.primer import print_claims, print_primer
from bertscope_workbench.command.views.progress import asking_claims
from bertscope_workbench.command.views.table_files import require_table, write_table
from bertscope_workbench.primer.claim import Claim, read_claims
from bertscope_workbench.primer.data import Data
from bertscope_workbench.primer.documents import COLUMNS, primer_document, primer_rows
from bertscope_workbench.primer.film import run_film
from bertscope_workbench.primer.kept_results import KeptResults
from bertscope_workbench.primer.run import Compared, OnProgress, Primer, PrimerProgress, run_primer

PAGE_FORMATS = (".html",)


def primer(
    *,
    server: ServerOptions,
    list_claims: Annotated[bool, option("--list", "Name the claims, and ask nothing.")] = False,
    only: Annotated[list[str] | None, option("--only CLAIM", "Ask this claim or section alone. Repeatable.")] = None,
    claims: Annotated[list[Path] | None, option("--claims FILE.toml", "Ask claims of yours instead. Repeatable.")] = None,
    data: Annotated[Path | None, option("--data DIR", "Public data, as published: treebanks, BLiMP, facts and so on.")] = None,
    limit: Annotated[int | None, option("--limit N", "Take the first N items of each file.", min=1)] = None,
    language: Annotated[list[str] | None, option("--language CODE", "The language to ask in: en, ko. Repeatable.")] = None,
    against: Annotated[str | None, option("--against MODEL", "A larger model, for claims about size.")] = None,
    fine_tuned: Annotated[str | None, option("--fine-tuned MODEL", "The model's fine-tuned copy, for what changes.")] = None,
    revisions: Annotated[
        list[str] | None,
        option("--revision REV", "A checkpoint of the model: a hub revision or a folder on the server. Repeatable, in order."),
    ] = None,
    output: Annotated[Path, option("--output PAGE.html", "The page to write; .json and .parquet go beside it.")] = Path(
        "primer.html"
    ),
    resume: Annotated[bool, option("--resume", "Go on with a run that was cut short; begin if there is none.")] = False,
    model: Annotated[
        list[str] | None,
        option("--model NAME", "A model to ask; the default model unless set. Repeatable.", callback=distinct),
    ] = None,
    timeout: options.LongTimeout = None,
    as_json: options.Json = False,
) -> None:
    """Asks the claims, prints the table, and writes page and files."""
    chosen = _claims(claims, only)
    if list_claims:
        print_claims(console(), chosen)
        return
    refuse({"--revision": revisions} if model and len(model) > 1 else {}, "goes with one --model")
    output_files.require_output(output, PAGE_FORMATS)
    require_table(output.with_suffix(".parquet"))
    rows = output.with_suffix(".jsonl")
    kept = KeptResults(rows, resume=resume)
    compared = Compared(against, fine_tuned, tuple(each.lower() for each in language or ("en",)))
    own = Data(data, limit)

    def how() -> str:
        return f"; {rows} keeps the answers so far: {GOES_ON}" if kept.answered else ""

    with server.connect(timeout) as client, stopped_in_one_line(rows, how) as check, asking_claims() as show:

        def on_progress(progress: PrimerProgress) -> None:
            check()
            show(progress)

        result = _ask(client, chosen, model, revisions, own, compared, kept, timeout, on_progress)
    _write(result, output)
    kept.finish()
    if as_json:
        print_json(primer_document(result))
        return
    screen = console()
    print_primer(screen, result)
    screen.print(
        printable(f"wrote {output}, {output.with_suffix('.json')} and {output.with_suffix('.parquet')}"), soft_wrap=True
    )


def _claims(files: list[Path] | None, only: list[str] | None) -> list[Claim]:
    try:
        return read_claims(files or (), only or ())
    except OSError as error:
        raise Failure(f"{error.filename}: {error.strerror}") from error
    except InvalidArgument as error:
        raise Failure(f"{error.field_violations[0].field}: {error.message}") from error


def _ask(
    client: Client,
    claims: list[Claim],
    model: list[str] | None,
    revisions: list[str] | None,
    data: Data,
    compared: Compared,
    kept: KeptResults,
    timeout: float | None,
    on_progress: OnProgress,
) -> Primer:
    if revisions:
        return run_film(
            client,
            claims,
            revisions,
            model=model[0] if model else None,
            data=data,
            compared=compared,
            kept=kept,
            timeout=timeout,
            on_progress=on_progress,
        )
    return run_primer(
        client,
        claims,
        models=model or (None,),
        data=data,
        compared=compared,
        kept=kept,
        timeout=timeout,
        on_progress=on_progress,
    )


def _write(result: Primer, output: Path) -> None:
    """Writes the page and the files beside it: all are made before one is written."""
    from bertscope_workbench.primer.page import primer_page

    texts = {output: primer_page(result), output.with_suffix(".json"): json.dumps(primer_document(result), allow_nan=False)}
    for path, text in texts.items():
        with output_files.written(path) as file:
            file.write(text)
    write_table(COLUMNS, primer_rows(result), output.with_suffix(".parquet"))
