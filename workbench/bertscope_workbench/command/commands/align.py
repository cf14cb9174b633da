"""Link the words of sentences and their translations by the cosine of their states; words are what blanks separate.

SimAlign (Jalili Sabet et al. 2020). Give tokenised sentences.
"""

from pathlib import Path
from typing import Annotated, Literal

import typer
from bertscope import AlignedWords, GoldAlignment, score_alignments
from bertscope.questions.representations.alignment import LINK_COLUMNS
from rich.console import Console

from bertscope_workbench.command import options
from bertscope_workbench.command.options.groups import Offered, grouped
from bertscope_workbench.command.options.results import print_result
from bertscope_workbench.command.options.server import ServerOptions
from bertscope_workbench.command.options.translations import TranslationOptions
from bertscope_workbench.command.views import files as output_files
from bertscope_workbench.command.views.alignment import document, print_alignments, print_scores
from bertscope_workbench.command.views.files import reading
from bertscope_workbench.command.views.output import Failure, UsageError
from bertscope_workbench.command.views.progress import waiting
from bertscope_workbench.command.views.table_files import TABLE_FORMATS, require_table, write_table
from bertscope_workbench.plots.alignment import save_alignment
from bertscope_workbench.readers.translation_files import read_gold_alignments

PHARAOH = ".txt"


@grouped
def align(
    *,
    server: ServerOptions,
    file: TranslationOptions,
    layer: Annotated[
        int, typer.Option("--layer", min=0, metavar="L", help="The layer of the states: 0 the embeddings, k after layer k - 1.")
    ],
    method: Annotated[
        Literal["argmax", "itermax"],
        typer.Option("--method", help="Link words that are each other's nearest, or look once more for further ones."),
    ] = "argmax",
    gold: Annotated[
        Path | None,
        typer.Option("--gold", metavar="FILE", help='Links that people made, a line "0-0 1p2" for each pair: score by them.'),
    ] = None,
    plot: Annotated[Path | None, typer.Option("--plot", metavar="FILE", help="Draw a pair: .png, .svg or .pdf.")] = None,
    pair: Annotated[
        int | None, typer.Option("--pair", min=0, metavar="K", help="With --plot: which pair, from 0; the first unless set.")
    ] = None,
    dark: Annotated[bool, typer.Option("--dark", help="With --plot: draw on a dark page.")] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", metavar="FILE", help='A line "0-0 1-2" for each pair (.txt), or a row for each link (.csv, .tsv, ...).'
        ),
    ] = None,
    call: Annotated[options.LongCallOptions, Offered("model", "timeout", "json")],
) -> None:
    output_files.require_plot(plot)
    if output is None or output.suffix.lower() != PHARAOH:
        output_files.require_output(output, (*TABLE_FORMATS, PHARAOH))
        require_table(output)
    else:
        output_files.require_output(output, (PHARAOH,))
    if plot is None and (dark or pair is not None):
        raise UsageError("--dark and --pair go with --plot")
    source = file.source()
    people = None
    if gold is not None:
        with reading(gold):
            people = read_gold_alignments(gold, limit=file.limit)
    if people is not None and len(people) != len(source.items):
        raise Failure(f"{gold} has {len(people)} lines for {len(source.items)} pairs; write one for each, blank if it has none")
    if (pair or 0) >= len(source.items):
        raise UsageError(f"--pair {pair}: there are {len(source.items)} pairs, from 0")
    with server.connect(call.timeout) as client, waiting("aligning"):
        found = client.align_words(
            source.items, layer=layer, model=call.model, method=method, on_rejected=source.reject, timeout=call.timeout
        )
    if not found:
        raise Failure(f"every pair was left out; {source.rejected}")
    scores = None if people is None else score_alignments(found, people)
    if output is not None:
        _write(found, output, len(source.items))
    if plot is not None:
        _draw(found, people, plot, pair or 0, dark=dark)

    def show(screen: Console, found: AlignedWords) -> None:
        print_alignments(screen, found)
        if scores is not None:
            print_scores(screen, scores)

    print_result(found, lambda found: document(found, scores), show, json=call.json, written=[output, plot], source=source)


def _write(found: AlignedWords, output: Path, pairs: int) -> None:
    if output.suffix.lower() != PHARAOH:
        write_table(LINK_COLUMNS, [row for one in found for row in one.rows()], output)
        return
    lines = {one.index: one.pharaoh for one in found}
    with output_files.written(output) as file:
        file.writelines(f"{lines.get(index, '')}\n" for index in range(pairs))


def _draw(found: AlignedWords, people: list[GoldAlignment] | None, plot: Path, pair: int, *, dark: bool) -> None:
    chosen = next((one for one in found if one.index == pair), None)
    if chosen is None:
        raise Failure(f"pair {pair} was left out and can't be drawn; name another with --pair")
    output_files.draw(lambda path: save_alignment(chosen, path, people[pair] if people else None, dark=dark), plot)
