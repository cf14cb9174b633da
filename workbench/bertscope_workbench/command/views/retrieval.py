"""Prints how often the translation of a sentence is nearest to it."""

from bertscope import RetrievedSentences
from rich.console import Console
from rich.text import Text

from bertscope_workbench.command.views.output import percent, plural, printable, table, titled


def print_retrieval(screen: Console, found: RetrievedSentences) -> None:
    """Prints a row for each layer: the share of translations found in each direction with its interval, and their mean rank."""
    heading = f"{plural(len(found.pairs), 'pair')}, "
    screen.print(Text(heading, style="bold").append_text(printable(found.provenance.model)))
    if found.truncated_texts:
        screen.print(f"texts that were cut: {found.truncated_texts}", style="yellow")
    result = table(
        ["layer#", *(f"{name}#" for way in ("forward", "backward") for name in (way, "95 %", "mean 1/rank", "ties"))]
    )
    sides = [
        (found.accuracy(backward=back), found.intervals(backward=back), found.mean_reciprocal_rank(backward=back), ties)
        for back, ties in ((False, found.forward_ties), (True, found.backward_ties))
    ]
    for place, layer in enumerate(found.layers):
        cells = []
        for accuracy, intervals, reciprocal, ties in sides:
            low, high = intervals[place]
            reach = f"{100 * low:.1f} to {100 * high:.1f}"
            cells += [percent(float(accuracy[place])), reach, f"{reciprocal[place]:.3f}", str(ties[place])]
        result.add_row(str(layer), *cells)
    title = "sentences whose translation is nearest, by layer; layer 0 is the embeddings"
    screen.print(titled(f"{title}; chance {percent(found.chance)}", result))
    centred = "each language's mean is subtracted" if found.centred else "no mean is subtracted"
    vector = "mean of the pieces" if found.pooling == "mean" else "[CLS]"
    screen.print(f"vector: {vector}; {centred}. forward: from a source to its target", style="dim")
