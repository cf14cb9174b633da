"""Formats attributions to neurons or heads."""

from typing import Any

from bertscope import NeuronAttribution
from bertscope.values.documents import fields_of
from bertscope.values.score_targets import described
from rich.console import Console

from bertscope_workbench.command.views.attribution import missed, signed
from bertscope_workbench.command.views.output import print_cut, printable, table


def print_neurons(screen: Console, found: NeuronAttribution) -> None:
    """Prints the units of the largest values, and what the units of each layer add together."""
    screen.print(printable(described(found.target, found.label)), style="bold", soft_wrap=True)
    rows = ([one.layer, one.unit, one.position, signed(one.value)] for one in found.units)
    screen.print(table(["layer#", f"{found.site.removesuffix('s')}#", "token#", "value#"], rows))
    sums = zip(found.layers, found.layer_sums, found.layer_values_absent, strict=True)
    every = ([layer, signed(total), absent, missed(total, found.value, absent)] for layer, total, absent in sums)
    screen.print(table(["layer#", f"all its {found.site}#", "score without them#.3f", "error, of the difference#"], every))
    print_cut(screen, found.truncated_tokens)
    how = f"{found.method.replace('_', ' ')}, {found.provenance.model}"
    screen.print(f"score {found.value:.3f}; {how}", style="dim", soft_wrap=True)
    screen.print()


def neurons_document(found: NeuronAttribution) -> dict[str, Any]:
    """Returns the attribution in JSON types."""
    return fields_of(found, "text", "label") | found.to_row() | fields_of(found, "provenance")
