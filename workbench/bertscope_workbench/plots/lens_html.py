"""Shows the readings of a text's layers as a heat map of words in a notebook, without matplotlib and pandas."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bertscope.questions.representations.lens import LayerReading, LensPosition, LensText

MAX_TEXTS = 10
"""The most texts that are shown."""
MAX_POSITIONS = 60
"""The most positions of a text that are shown."""
NAMED = 3
"""The likeliest entries that are named where the pointer is."""
COLOUR, OPACITY = "66,146,198", 0.75
"""The colour of probability 1, blue, and how much of the page it hides: text in the page's own colour is readable on all of the
scale, on light pages and on dark ones."""
CELL = "padding:2px 8px;text-align:center;white-space:nowrap"


def lens_html(found: Sequence[LensText]) -> str:
    """Returns a table for each text, the last layer on top: the likeliest entry of each position and layer, a stronger blue for
    a larger probability, and the likeliest three with their probabilities where the pointer is."""
    parts = [_table(text) for text in found[:MAX_TEXTS]]
    if len(found) > MAX_TEXTS:
        parts.append(f"<p>{len(found) - MAX_TEXTS} more texts are not shown</p>")
    return "".join(parts)


def _table(found: LensText) -> str:
    text = found.text if isinstance(found.text, str) else " / ".join(found.text)
    positions = found.positions[:MAX_POSITIONS]
    left = len(found.positions) - len(positions)
    rest = f"; {left} more positions are not shown" if left else ""
    caption = f"the likeliest entry at each layer (0: the embeddings), {found.provenance.model}{rest}"
    rows = [
        _row(f"{found.layers[number]}", [_cell(position, position.layers[number]) for position in positions])
        for number in sorted(range(len(found.layers)), key=lambda number: -found.layers[number])
    ]
    heads = [f'<th scope="col" style="{CELL}">{html.escape(position.token.text)}</th>' for position in positions]
    # Notebooks would typeset what is between dollar signs, but for these classes.
    table = '<table class="tex2jax_ignore mathjax_ignore" style="border-collapse:collapse;margin-bottom:12px">'
    said = f"<b>{html.escape(text)}</b><br>{html.escape(caption)}"
    return (
        f'{table}<caption style="caption-side:top;text-align:left">{said}</caption>'
        f"<thead>{_row('layer', heads)}</thead><tbody>{''.join(rows)}</tbody></table>"
    )


def _row(name: str, cells: list[str]) -> str:
    return f'<tr><th scope="row" style="{CELL}">{name}</th>{"".join(cells)}</tr>'


def _cell(position: LensPosition, reading: LayerReading) -> str:
    likeliest = reading.top[0]
    named = ", ".join(f"{entry.token} {entry.probability:.3f}" for entry in reading.top[:NAMED])
    said = html.escape(f"{position.token.text}, layer {reading.layer}: {named}")
    colour = f"rgba({COLOUR},{OPACITY * likeliest.probability:.3f})"
    return f'<td title="{said}" style="{CELL};background:{colour}">{html.escape(likeliest.token)}</td>'
