"""Prints how alike the states of each two layers are."""

import math

from bertscope import RepresentationComparison
from rich.console import Console
from rich.text import Text

from bertscope_workbench.command.views.attention import shade
from bertscope_workbench.command.views.output import plural, printable, table, titled


def print_representations(screen: Console, found: RepresentationComparison) -> None:
    """Prints a row for each layer of the first model, the last one on top, and a column for each of the second."""
    counted = f"{plural(found.compared_texts, 'text')}, {plural(found.compared_words, 'word')}, "
    screen.print(Text(counted, style="bold").append_text(printable(found.models)))
    if found.truncated_texts:
        screen.print(f"texts that were cut: {found.truncated_texts}", style="yellow")
    if found.compared_texts < found.texts:
        few = plural(found.texts - found.compared_texts, "text")
        screen.print(f"not compared, for they have fewer than four words: {few}", style="yellow")
    result = table(["layer#", *(f"{layer}#" for layer in found.other_layers)])
    for layer, values in reversed([*zip(found.layers, found.cka().tolist(), strict=True)]):
        result.add_row(str(layer), *(Text("") if math.isnan(value) else shade(f"{value:.2f}", value) for value in values))
    screen.print(titled("linear CKA of the words' states, unbiased, within texts; layer 0 is the embeddings", result))
