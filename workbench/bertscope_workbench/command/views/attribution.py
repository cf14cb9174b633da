"""Formats attributions of logits, and to neurons or heads, as tables and as JSON."""

import math
from typing import Any

import numpy as np
from bertscope import LogitAttribution, NeuronAttribution
from bertscope.values.documents import document_of, fields_of
from bertscope.values.score_targets import described
from rich.console import Console, Group
from rich.text import Text

from bertscope_workbench.command.views.output import print_cut, printable, table, titled

SHOWN = 10
"""The heads and feed-forward blocks with the largest terms that are printed."""


def attribution_document(found: LogitAttribution) -> dict[str, Any]:
    """Returns the terms in JSON types; arrays are [layers, heads] or [layers]."""
    correlation = {} if found.ablated is None else {"correlation": found.correlation()}
    return {**document_of(found), "total": found.total} | correlation


def print_attribution(screen: Console, found: LogitAttribution) -> None:
    """Prints the difference, the sums of its terms by layer, and the parts that add most."""
    text = found.text if isinstance(found.text, str) else " / ".join(found.text)
    screen.print(printable(text), style="bold", soft_wrap=True)
    print_cut(screen, found.truncated_tokens)
    screen.print(printable(f"logit of {found.answer} minus that of {found.other_answer}: {found.difference:+.3f}"))
    screen.print(layers_table(found))
    screen.print(largest_table(found))
    if found.ablated is not None:
        correlation = found.correlation()
        said = "not defined, as one of them does not vary" if math.isnan(correlation) else f"{correlation:+.3f}"
        screen.print(f"correlation over heads of what they add with how much the difference falls without them: {said}")
    screen.print(f"{found.provenance.model}; sum of all terms: {found.total:+.4f}", style="dim")


def layers_table(found: LogitAttribution) -> Group:
    """Returns what the heads together, the feed-forward block and the biases of each layer add, the last layer on top."""
    rows: list[list[Text | str]] = [["embeddings", "", "", "", signed(found.embeddings)]]
    for layer, heads in enumerate(found.heads):
        biases = float(found.attention_biases[layer] + found.normalisation_shifts[layer])
        parts = float(heads.sum()), float(found.feed_forward[layer]), biases
        rows.append([str(layer), *map(signed, parts), signed(sum(parts))])
    rows.append(["masked-LM head", "", "", *[signed(found.head_biases)] * 2])
    columns = ["layer#", "heads#", "feed-forward#", "biases#", "sum#"]
    return titled("what each layer adds to the difference", table(columns, reversed(rows)))


def largest_table(found: LogitAttribution) -> Group:
    """Returns the heads and feed-forward blocks that add most, of either sign, largest first."""
    parts: list[tuple[float, str, float | None]] = [
        (float(added), f"head {layer}:{head}", None if found.ablated is None else float(found.ablated[layer, head]))
        for (layer, head), added in np.ndenumerate(found.heads)
    ]
    parts += [(float(added), f"feed-forward {layer}", None) for layer, added in enumerate(found.feed_forward)]
    parts.sort(key=lambda part: -abs(part[0]))
    rows = ([name, signed(added), falls if falls is None else signed(falls)] for added, name, falls in parts[:SHOWN])
    result = table(["part", "adds#", "falls without it#"], rows)
    return titled(f"the {min(SHOWN, len(parts))} heads and feed-forward blocks that add most", result)


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


def signed(value: float) -> Text:
    """Returns a number with its sign, in the colour of the answer that it favours."""
    return Text(f"{value:+.3f}", style="cyan" if value > 0 else "yellow" if value < 0 else "dim")


def missed(total: float, value: float, absent: float) -> str:
    """Returns how far the sum of values is from the difference of the scores with and without the units, as a share of that
    difference: "0.13 %"; a dash where both scores are the same."""
    difference = value - absent
    return f"{100 * abs(total - difference) / abs(difference):,.2f} %" if difference else "–"
