"""Prints a comparison of attention: a row for each layer, and the cosine of each head."""

from bertscope import AttentionComparison
from rich.console import Console, Group
from rich.text import Text

from bertscope_workbench.command.views.attention import shade
from bertscope_workbench.command.views.output import plural, printable, table, titled
from bertscope_workbench.command.views.sweep import layer_grid

SHOWN = ("first_special", "separators", "previous", "next", "entropy")
"""The differences in the table; --output has all of them."""


def print_comparison(screen: Console, comparison: AttentionComparison) -> None:
    """Prints the mean cosine and divergence of each layer, the head that differs most, and the cosines of all heads."""
    asked = f"{plural(comparison.texts, 'text')}, {plural(comparison.tokens, 'token')}, "
    screen.print(Text(asked, style="bold").append_text(printable(comparison.models)))
    if comparison.truncated_texts:
        screen.print(f"texts that were cut: {comparison.truncated_texts}", style="yellow")
    screen.print(layers_table(comparison))
    screen.print(cosines_grid(comparison))


def layers_table(comparison: AttentionComparison) -> Group:
    """Returns the means over the heads of each layer."""
    names = [name for name in SHOWN if name in comparison.differences]
    result = table(["layer#", "cosine#", "lowest#", "divergence#", *(f"{name.replace('_', ' ')}#" for name in names)])
    cosine, divergence = comparison.cosine.mean(), comparison.divergence.mean()
    for layer in range(comparison.layers):
        head = int(cosine[layer].argmin())
        result.add_row(
            str(layer),
            f"{cosine[layer].mean():.3f}",
            f"{cosine[layer, head]:.3f} (head {head})",
            f"{divergence[layer].mean():.4f}",
            *(f"{comparison.difference(name)[layer].mean():+.3f}" for name in names),
        )
    return titled(
        "means over the heads of a layer; differences are the second's less the first's",
        result,
    )


def cosines_grid(comparison: AttentionComparison) -> Group:
    """Returns the cosine of each head, shaded by how much it differs."""
    rows = [[shade(f"{value:.2f}", 1 - value) for value in layer] for layer in comparison.cosine.mean().tolist()]
    return titled("cosine of the maps of each head", layer_grid(rows, range(comparison.layers)))
