"""`bertscope attention --compare`: how differently the heads of two models attend."""

from functools import partial
from pathlib import Path
from typing import Any

from bertscope import AttentionComparison
from bertscope.questions.attention.comparison import comparison_document
from bertscope.values.validation import TextOrPair
from rich.console import Console, Group

from bertscope_workbench.command.options import CallOptions
from bertscope_workbench.command.options.describing import DescribeOptions
from bertscope_workbench.command.options.results import print_result
from bertscope_workbench.command.options.server import ServerOptions
from bertscope_workbench.command.options.sources import Source
from bertscope_workbench.command.views.output import plural, print_heading, shade, table, titled
from bertscope_workbench.command.views.progress import answering
from bertscope_workbench.command.views.sweep import layer_grid
from bertscope_workbench.plots.comparison import save_comparison

SHOWN = ("first_special", "separators", "previous", "next", "entropy")
"""The differences in the table; --output has all of them."""


def compare_texts(
    server: ServerOptions,
    asked: DescribeOptions,
    source: Source[TextOrPair],
    plot: Path | None,
    call: CallOptions,
    **arguments: Any,
) -> None:
    """Compares heads over texts, prints the comparison, and writes the requested files."""
    asked.require_compare()
    out = asked.files(plot)
    with server.connect(call.timeout) as client, source.some_left(), answering("comparing") as show:
        found = client.compare_attention(
            source.items,
            asked.compare,
            punctuation=asked.punctuation or None,
            on_progress=show,
            on_rejected=source.reject,
            **call.arguments(),
            **arguments,
        )
    written = out.write(found, partial(save_comparison, found))
    print_result(found, comparison_document, print_comparison, json=call.json, written=written, source=source)


def print_comparison(screen: Console, comparison: AttentionComparison) -> None:
    """Prints the mean cosine and divergence of each layer, the head that differs most, and the cosines of all heads."""
    counts = plural(comparison.texts, "text"), plural(comparison.tokens, "token")
    print_heading(screen, comparison.models, *counts, truncated=comparison.truncated_texts)
    screen.print(layers_table(comparison))
    screen.print(cosines_grid(comparison))


def layers_table(comparison: AttentionComparison) -> Group:
    """Returns the means over the heads of each layer."""
    names = [name for name in SHOWN if name in comparison.differences]
    cosine, divergence = comparison.cosine.mean(), comparison.divergence.mean()
    lowest = (f"{layer.min():.3f} (head {layer.argmin()})" for layer in cosine)
    means = [comparison.difference(name).mean(1) for name in names]
    rows = zip(range(comparison.layers), cosine.mean(1), lowest, divergence.mean(1), *means, strict=True)
    more = (f"{name.replace('_', ' ')}#+.3f" for name in names)
    result = table(["layer#", "cosine#.3f", "lowest#", "divergence#.4f", *more], rows)
    return titled("means over the heads of a layer; differences are the second's less the first's", result)


def cosines_grid(comparison: AttentionComparison) -> Group:
    """Returns the cosine of each head, shaded by how much it differs."""
    rows = [[shade(f"{value:.2f}", 1 - value) for value in layer] for layer in comparison.cosine.mean().tolist()]
    return titled("cosine of the maps of each head", layer_grid(rows, range(comparison.layers)))
