"""Shows attention maps as an interactive page that needs only a browser."""

from __future__ import annotations

import base64
import html
import importlib.resources
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from bertscope import AttentionMaps

__all__ = ["AttentionPage", "attention_page"]

COLORS = ("#ffffff", "#dcebf7", "#9ecae8", "#4292c6", "#14549c", "#08264f")
DARK_COLORS = ("#18222c", "#173a5e", "#1f66a8", "#4f9fd9", "#a8d2ee", "#f2f8fc")
"""The colours of weights on a dark page, for those whose browser prefers one."""
MAX_PAGE_WEIGHTS = 2**25
"""Most weights in one page; more would be over 90 MB of HTML, which browsers do not take well."""
FRAME = (
    '<iframe srcdoc="{}" width="100%" height="600" style="border:0" onload="const inner = this.contentDocument.documentElement;'
    " const fit = () => {{ this.style.height = Math.ceil(inner.getBoundingClientRect().height) + 24 + 'px'; }};"
    ' new ResizeObserver(fit).observe(inner); fit()"></iframe>'
)
"""A page within a page, as high as its content: in a notebook that isn't trusted, where nothing runs, 600 pixels."""

Choice = int | Iterable[int] | None


@dataclass(frozen=True, repr=False)
class AttentionPage:
    """An interactive page of attention maps, which shows itself in a notebook."""

    html: str
    """The page, a whole document that loads nothing."""

    def __repr__(self) -> str:
        return f"<AttentionPage: {len(self.html):,} characters of HTML>"

    def _repr_html_(self) -> str:
        return FRAME.format(html.escape(self.html))

    def save(self, path: str | PathLike[str]) -> None:
        """Writes the page as a file that a browser opens without a server, whatever its name ends with."""
        Path(path).write_text(self.html, encoding="utf-8")


def attention_page(
    maps: AttentionMaps, layer: Choice = None, head: Choice = None, *, title: str | None = None
) -> AttentionPage:
    """Returns one HTML page that shows any layer and head, as a map and, of up to 72 tokens, as lines, and the weight under the
    pointer. It loads nothing, and is dark where the browser prefers that.

    `layer` and `head` choose the contents of the page; numbers are rounded to 1/65535 of the largest, weights of 1. Raises
    ValueError for more than 2**25 weights (layers x heads x L x L) or none, and KeyError for a layer or head that the maps
    don't hold.
    """
    layers, heads = choose(maps.layers, layer, "layer"), choose(maps.heads, head, "head")
    slices = np.ix_([maps.layers.index(value) for value in layers], [maps.heads.index(value) for value in heads])
    weights: npt.NDArray[np.floating[Any]] = maps.attention[slices]
    if weights.size > MAX_PAGE_WEIGHTS:
        raise ValueError(f"{weights.size} weights are too many for a page, {MAX_PAGE_WEIGHTS} at most: choose layers")
    numbers = np.nan_to_num(weights.astype(np.float32)).clip(0)
    largest = 1.0 if maps.quantity == "weights" else max(float(numbers.max(initial=0.0)), 1e-30)
    quantized = np.rint((numbers / largest).clip(0, 1) * 65535).astype("<u2")
    shown = heading(maps) if title is None else title
    data = {
        "title": shown,
        "model": maps.provenance.model,
        "quantity": name_of(maps),
        "by_head": maps.by_head,
        "largest": largest,
        "tokens": [token.text for token in maps.tokens],
        "layers": layers,
        "heads": heads,
        "special": [token.special for token in maps.tokens],
        "segments": [token.segment if maps.text_pair is not None else 0 for token in maps.tokens],
        "colors": COLORS,
        "dark_colors": DARK_COLORS,
        "weights": base64.b64encode(quantized.tobytes()).decode("ascii"),
    }
    template = importlib.resources.files("bertscope_workbench.plots").joinpath("attention_page.html").read_text("utf-8")
    contents = {"{{title}}": html.escape(shown), "{{data}}": _script_safe_json(data)}
    # In one pass: the inserted text may itself look like a placeholder.
    return AttentionPage(re.sub(r"{{title}}|{{data}}", lambda place: contents[place.group()], template))


def choose(held: Sequence[int], choice: Choice, what: str) -> list[int]:
    """Returns the layers or heads of a choice. Raises KeyError for one that the maps do not hold, ValueError for none."""
    if choice is None:
        return list(held)
    chosen = [int(value) for value in choice] if isinstance(choice, Iterable) else [int(choice)]
    if not chosen:
        raise ValueError(f"{what} is empty; leave it out to mean all")
    for value in chosen:
        if value not in held:
            raise KeyError(f"{what} {value} is not among those of the maps: {list(held)}")
    return chosen


def name_of(maps: AttentionMaps) -> str:
    """Returns what the numbers of the maps are, in words."""
    return "attention" if maps.quantity == "weights" else maps.quantity.replace("_", " ")


def place_of(maps: AttentionMaps, layer: int, head: int) -> str:
    """Returns the name of one of the maps."""
    return f"layer {layer}, head {head}" if maps.by_head else f"layer {layer}"


def heading(maps: AttentionMaps) -> str:
    """Returns the text of the maps, cut if it is long."""
    text = maps.text if maps.text_pair is None else f"{maps.text} / {maps.text_pair}"
    return text if len(text) <= 100 else f"{text[:99]}…"


def _script_safe_json(data: object) -> str:
    """Returns JSON that a script element can hold whatever the text: no character in it can end the element."""
    return json.dumps(data).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
