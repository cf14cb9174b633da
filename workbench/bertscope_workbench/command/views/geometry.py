"""Prints the geometry of hidden states: a row for each layer, and one for each requested word."""

import math

import numpy as np
from bertscope import GeometryDescription
from bertscope.questions.representations.geometry import OCCURRENCES
from rich.console import Console
from rich.text import Text

from bertscope_workbench.command.views.output import percent, plural, printable, table, titled

DIMENSIONS = 3
"""The largest dimensions that are named."""
MAX_WORDS = 20
"""The most words that are shown, those with most vectors."""


def print_geometry(screen: Console, found: GeometryDescription) -> None:
    """Prints a row for each layer, and the self-similarity of each requested word in the first, middle and last layer."""
    unit = "piece" if found.pieces else "word"
    heading = f"{plural(found.texts, 'text')}, {plural(found.vectors, unit)}, "
    screen.print(Text(heading, style="bold").append_text(printable(found.provenance.model)))
    if found.truncated_texts:
        screen.print(f"texts that were cut: {found.truncated_texts}", style="yellow")
    _print_layers(screen, found, unit)
    if found.words:
        _print_words(screen, found)


def _print_layers(screen: Console, found: GeometryDescription, unit: str) -> None:
    compared = sum(each.vectors >= OCCURRENCES for each in found.words.values())
    columns = [
        "layer#",
        "of two texts#",
        "of one text#",
        "adjusted#",
        *(["same word#", "adjusted#"] if compared else []),
        "length#",
        "largest dimensions",
        *(["first direction#", "effective rank#"] if found.has_second_moments else []),
    ]
    result = table(columns)
    shares = found.dimension_shares()
    similarities = [found.anisotropy(), found.similarity_in_texts(), found.similarity_in_texts(adjusted=True)]
    if compared:
        similarities += [found.self_similarity(), found.self_similarity(adjusted=True)]
    norm, deviation = found.norm(), found.norm_deviation()
    ranks = []
    if found.has_second_moments:
        spectra = zip(found.variance_shares().tolist(), found.effective_rank().tolist(), strict=True)
        ranks = [[percent(share), f"{rank:.1f}"] for share, rank in spectra]
    for index, layer in enumerate(found.layers):
        largest = np.argsort(-shares[index])[: DIMENSIONS - found.has_second_moments]
        named = ", ".join(f"{place}: {100 * shares[index, place]:.0f} %" for place in largest) if found.texts > 1 else ""
        cells = [_cosine(float(values[index])) for values in similarities]
        result.add_row(
            str(layer), *cells, f"{norm[index]:.2f} ± {deviation[index]:.2f}", named, *(ranks[index] if ranks else [])
        )
    title = f"mean cosines of two {unit}s' states (adjusted: less that of {unit}s of two texts); layer 0 is the embeddings"
    screen.print(titled(title, result))
    if found.texts > 1:
        screen.print(f"largest dimensions: their parts in the mean cosine of {unit}s of two texts", style="dim")
    if compared:
        screen.print(f"same word: mean over {plural(compared, 'word')} of {OCCURRENCES} or more vectors", style="dim")


def _print_words(screen: Console, found: GeometryDescription) -> None:
    count = len(found.layers)
    places = sorted({0, count // 2, count - 1})
    shown = sorted(found.words.items(), key=lambda item: -item[1].vectors)[:MAX_WORDS]
    result = table(["word", "vectors#", *(f"layer {found.layers[place]}#" for place in places)])
    for name, sums in shown:
        values = found.self_similarity(name, adjusted=True)
        result.add_row(printable(name), str(sums.vectors), *(_cosine(float(values[place])) for place in places))
    screen.print(titled("mean cosine between a word's vectors, adjusted", result))
    if len(found.words) > len(shown):
        screen.print(f"not shown: {plural(len(found.words) - len(shown), 'word')} (--word-output has all)", style="dim")


def _cosine(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.3f}"
