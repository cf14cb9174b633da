"""Show how alike the vectors of words are in each layer: of all words, of one text, of one word in different texts.

Examples:

  bertscope geometry --texts examples/sentences.txt --frequent 3
  bertscope geometry "The bank of the river." "The bank lent money." --word bank
"""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from bertscope import GeometryDescription
from bertscope.questions.representations.geometry import OCCURRENCES, document, frequent_words, word_columns
from rich.console import Console

from bertscope_workbench.analyses.variances import explainable_variance, variance_document
from bertscope_workbench.command import options
from bertscope_workbench.command.checked_commands import modes
from bertscope_workbench.command.groups import flag, offered, option
from bertscope_workbench.command.options.describing import TextFileOptions
from bertscope_workbench.command.options.interventions import ModelOptions
from bertscope_workbench.command.options.results import OutputOptions, print_result
from bertscope_workbench.command.parts.neighbours import find_neighbours, print_variance, print_words
from bertscope_workbench.command.views.output import plural, print_heading, table, titled
from bertscope_workbench.command.views.progress import answering
from bertscope_workbench.command.views.table_files import require_table
from bertscope_workbench.plots.geometry import save_geometry

DIMENSIONS = 3
"""The largest dimensions that are named."""

app = modes("geometry", __doc__, neighbours="neighbours --word WORD")


@app.command("layers", help=__doc__)
def layers(
    *,
    file: TextFileOptions,
    layer: options.Layers = None,
    pieces: bool = flag("--pieces", "A vector for each piece, and not for each word.", without="variance"),
    special: bool = flag("--special", "Special tokens have vectors too.", without="variance"),
    word: list[str] | None = option("--word WORD", "Show how alike this word's vectors are. Repeatable."),
    frequent: int | None = option("--frequent N", "The same of the N most frequent words of the texts.", min=1),
    rank: bool = flag("--rank", "Also the share of the first direction and the effective rank."),
    variance: bool = flag(
        "--variance", "Also how well one vector could stand for each word of --word and --frequent.", needs="word frequent"
    ),
    out: OutputOptions = offered(output="Write each layer's numbers: .csv, .tsv, .jsonl, .parquet, .tex."),
    word_output: Path | None = option(
        "--word-output FILE", "Write a row for each word and layer, likewise.", needs="word frequent"
    ),
    call: options.CallOptions,
    to: ModelOptions,
) -> None:
    require_table(word_output, "--word-output")
    source = file.source()
    arguments: dict[str, Any] = {
        "layers": layer,
        "model": call.model,
        "truncate": call.truncate,
        **to.arguments(),
    }
    named = [*(word or []), *(frequent_words(source.items, frequent) if frequent else [])]
    named = list({name.casefold(): name for name in named}.values())
    with to.connect(call.timeout) as client, source.some_left(), answering("describing") as show:
        found = client.describe_geometry(
            source.items,
            pieces=pieces,
            special_tokens=special,
            words=named,
            second_moments=rank,
            on_progress=show,
            on_rejected=source.reject,
            timeout=call.timeout,
            **arguments,
        )
        # Texts that were rejected before are rejected again, and told about once.
        variances = (
            explainable_variance(client, source.items, named, on_rejected=lambda index, error: None, **arguments)
            if variance
            else None
        )
    written = out.write(found, partial(save_geometry, found))
    if word_output is not None:
        written += OutputOptions(output=word_output).write(word_columns(found))
    added = {} if variances is None else {"explainable_variance": variance_document(variances)}

    def show_all(screen: Console, found: GeometryDescription) -> None:
        print_geometry(screen, found)
        if variances is not None:
            print_variance(screen, variances)

    print_result(found, lambda found: document(found) | added, show_all, json=call.json, written=written, source=source)


app.command("neighbours")(find_neighbours)


def print_geometry(screen: Console, found: GeometryDescription) -> None:
    """Prints a row for each layer, and the self-similarity of each requested word in the first, middle and last layer."""
    unit = "piece" if found.pieces else "word"
    counts = plural(found.texts, "text"), plural(found.vectors, unit)
    print_heading(screen, found.provenance.model, *counts, truncated=found.truncated_texts)
    _print_layers(screen, found, unit)
    if found.words:
        _print_words(screen, found)


def _print_layers(screen: Console, found: GeometryDescription, unit: str) -> None:
    compared = sum(each.vectors >= OCCURRENCES for each in found.words.values())
    ranked, nothing = found.has_second_moments, np.full(len(found.layers), np.nan)
    similarities = [found.anisotropy(), found.similarity_in_texts(), found.similarity_in_texts(adjusted=True)]
    similarities += [found.self_similarity(), found.self_similarity(adjusted=True)] if compared else [nothing] * 2
    lengths = (f"{norm:.2f} ± {deviation:.2f}" for norm, deviation in zip(found.norm(), found.norm_deviation(), strict=True))
    largest = (_largest(shares, DIMENSIONS - ranked) if found.texts > 1 else "" for shares in found.dimension_shares())
    ranks = (found.variance_shares(), found.effective_rank()) if ranked else [nothing] * 2
    columns = ["layer#", "of two texts#.3f", "of one text#.3f", "adjusted#.3f", "same word#.3f", "adjusted#.3f", "length#"]
    result = table(
        [*columns, "largest dimensions", "first direction#%", "effective rank#.1f"],
        zip(found.layers, *similarities, lengths, largest, *ranks, strict=True),
    )
    title = f"mean cosines of two {unit}s' states (adjusted: less that of {unit}s of two texts); layer 0 is the embeddings"
    screen.print(titled(title, result))
    if found.texts > 1:
        screen.print(f"largest dimensions: their parts in the mean cosine of {unit}s of two texts", style="dim")
    if compared:
        screen.print(f"same word: mean over {plural(compared, 'word')} of {OCCURRENCES} or more vectors", style="dim")


def _largest(shares: npt.NDArray[np.float64], count: int) -> str:
    return ", ".join(f"{place}: {100 * shares[place]:.0f} %" for place in np.argsort(-shares)[:count])


def _print_words(screen: Console, found: GeometryDescription) -> None:
    values = {name: [found.self_similarity(name, adjusted=True)] for name in found.words}
    print_words(screen, found, values, ".3f", "mean cosine between a word's vectors, adjusted", "--word-output")
