"""Link the words of sentences and their translations, by the cosine of their states; words are what blanks separate.

SimAlign (Jalili Sabet et al. 2020). Give tokenised sentences.

Example:

  bertscope align examples/paraphrases.tsv --layer 4 --gold examples/paraphrases.gold.txt --output links.txt
"""

from pathlib import Path
from typing import Any, Literal

from bertscope.values.documents import document_of, fields_of
from rich.console import Console
from rich.text import Text

from bertscope_workbench.analyses.alignment import (
    LINK_COLUMNS,
    AlignedWords,
    AlignmentScores,
    GoldAlignment,
    WordAlignment,
    align_words,
    score_alignments,
)
from bertscope_workbench.command import options
from bertscope_workbench.command.groups import offered, option
from bertscope_workbench.command.options.looks import LookOptions
from bertscope_workbench.command.options.results import print_result
from bertscope_workbench.command.options.server import ServerOptions
from bertscope_workbench.command.options.translations import TranslationOptions
from bertscope_workbench.command.views import files as output_files
from bertscope_workbench.command.views.files import read_file
from bertscope_workbench.command.views.output import Failure, UsageError, plural, print_heading, printable, table, titled
from bertscope_workbench.command.views.progress import waiting
from bertscope_workbench.command.views.table_files import TABLE_FORMATS, require_table, write_columns
from bertscope_workbench.plots.alignment import save_alignment
from bertscope_workbench.plots.look import Look
from bertscope_workbench.readers.translation_files import read_gold_alignments

MAX_ROWS = 40
"""The most rows of links that are printed."""

PHARAOH = ".txt"


def align(
    *,
    server: ServerOptions,
    file: TranslationOptions,
    layer: int = option(
        "--layer L", "The layer of the states: 0 the embeddings, k after layer k - 1.", default=..., min=0, field="layers"
    ),
    method: Literal["argmax", "itermax"] = option(
        "--method", "Link words that are each other's nearest, or look once more for further ones.", default="argmax"
    ),
    gold: Path | None = option("--gold FILE", 'Links that people made, a line "0-0 1p2" for each pair: score by them.'),
    plot: Path | None = option("--plot FILE", "Draw a pair: .png, .svg or .pdf."),
    pair: int | None = option("--pair K", "With --plot: which pair, from 0; the first unless set.", min=0, needs="plot"),
    looks: LookOptions,
    output: Path | None = option(
        "--output FILE", 'A line "0-0 1-2" for each pair (.txt), or a row for each link (.csv, .tsv, ...).'
    ),
    call: options.LongCallOptions = offered("model", "timeout", "json"),
) -> None:
    output_files.require_plot(plot)
    if output is None or output.suffix.lower() != PHARAOH:
        output_files.require_output(output, (*TABLE_FORMATS, PHARAOH))
        require_table(output)
    else:
        output_files.require_output(output, (PHARAOH,))
    source = file.source()
    people = None if gold is None else read_file(gold, lambda gold: read_gold_alignments(gold, limit=file.limit))
    if people is not None and len(people) != len(source.items):
        raise Failure(f"{gold} has {len(people)} lines for {len(source.items)} pairs; write one for each, blank if it has none")
    if (pair or 0) >= len(source.items):
        raise UsageError(f"--pair {pair}: there are {len(source.items)} pairs, from 0")
    with server.connect(call.timeout) as client, waiting("aligning"):
        found = align_words(
            client, source.items, layer=layer, model=call.model, method=method, on_rejected=source.reject, timeout=call.timeout
        )
    if not found:
        raise Failure(f"every pair was left out; {source.rejected}")
    scores = None if people is None else score_alignments(found, people)
    if output is not None:
        _write(found, output, len(source.items))
    if plot is not None:
        _draw(found, people, plot, pair or 0, looks.look)

    def show(screen: Console, found: AlignedWords) -> None:
        print_alignments(screen, found)
        if scores is not None:
            print_scores(screen, scores)

    print_result(found, lambda found: document(found, scores), show, json=call.json, written=[output, plot], source=source)


def _write(found: AlignedWords, output: Path, pairs: int) -> None:
    if output.suffix.lower() != PHARAOH:
        write_columns(found.columns(), output)
        return
    lines = {one.index: one.pharaoh for one in found}
    with output_files.written(output) as file:
        file.writelines(f"{lines.get(index, '')}\n" for index in range(pairs))


def _draw(found: AlignedWords, people: list[GoldAlignment] | None, plot: Path, pair: int, look: Look) -> None:
    chosen = next((one for one in found if one.index == pair), None)
    if chosen is None:
        raise Failure(f"pair {pair} was left out and can't be drawn; name another with --pair")
    output_files.draw(lambda path: save_alignment(chosen, path, people[pair] if people else None, **look), plot)


def print_alignments(screen: Console, found: AlignedWords) -> None:
    """Prints a row for each link of the first pairs, and the words that have none."""
    links = sum(len(one.links) for one in found)
    first = found[0]
    counts = plural(len(found), "pair"), plural(links, "link"), f"layer {first.layer}", first.method
    print_heading(screen, first.provenance.model, *counts)
    rows, drawn = list[list[Any]](), 0
    for one in found:
        if len(rows) + len(one.links) > MAX_ROWS and drawn:
            break
        rows += _rows(one)
        drawn += 1
    result = table(["pair#", "source", "target", "places", "cosine#.2f"], rows)
    screen.print(titled("words that are linked; pairs and places count from 0", result))
    if drawn < len(found):
        screen.print(f"not shown: {plural(len(found) - drawn, 'pair')} (--output has all)", style="dim")


def print_scores(screen: Console, scores: AlignmentScores) -> None:
    """Prints how links agree with those that people made."""
    columns = ["links#", "sure#", "precision#%", "recall#%", "F1#%", "error rate#%"]
    row = [scores.found, scores.sure, scores.precision, scores.recall, scores.f1, scores.error_rate]
    screen.print(titled(f"beside the links that people made, {plural(scores.pairs, 'pair')}", table(columns, [row])))


def document(found: AlignedWords, scores: AlignmentScores | None) -> dict[str, Any]:
    """Returns alignments in JSON types; "scores" is null without gold alignments."""
    names = LINK_COLUMNS[1:]
    pairs = [
        fields_of(one, "index", "source_words", "target_words", "pharaoh")
        | {"links": [dict(zip(names, row[1:], strict=True)) for row in one.rows()]}
        for one in found
    ]
    rates = None if scores is None else document_of(scores) | fields_of(scores, "precision", "recall", "f1", "error_rate")
    return fields_of(found[0], "provenance", "layer", "method") | {"pairs": pairs, "scores": rates}


def _rows(one: WordAlignment) -> list[list[Any]]:
    """Returns a row for each link of a pair, and one for its words without a link; the first one has the pair's number."""
    rows = [[None, words[0], words[1], f"{source}-{target}", cosine] for _, source, target, *words, cosine in one.rows()]
    sides = ((one.source_words, {link.source for link in one.links}), (one.target_words, {link.target for link in one.links}))
    alone = [[word for place, word in enumerate(words) if place not in linked] for words, linked in sides]
    if any(alone):
        cells = [Text("no link: ", style="dim").append_text(printable(" ".join(words))) if words else "" for words in alone]
        rows.append([None, *cells, "", ""])
    return [[None if place else one.index, *cells] for place, (_, *cells) in enumerate(rows)]
