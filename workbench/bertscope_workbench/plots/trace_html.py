"""Shows a trace as a heat map in a notebook, without matplotlib and pandas; and its strongest places in words."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from bertscope.questions.ablation.traces import SITES, heading

if TYPE_CHECKING:
    from bertscope.questions.ablation.site_effects import SiteEffect
    from bertscope.questions.ablation.traces import Trace

MAX_POSITIONS = 60
"""The most positions that are shown."""
STRONGEST = 20
"""The places that are listed where there is no heat map, strongest first."""
FOR, AGAINST, OPACITY = "66,146,198", "230,117,58", 0.75
"""The colours of shares over and under 0, and how much of the page the largest hides."""
CELL = "padding:2px 8px;text-align:center;white-space:nowrap"


def shown_what(found: Trace) -> str:
    """Returns the number that is worth showing: "recovery", or "difference" where there is no other run."""
    return "recovery" if any(effect.ratios for effect in found.effects) else "difference"


def place_name(found: Trace, effect: SiteEffect) -> str:
    """Returns the place of an effect in short: "heads 3:1, key"."""
    unit = "" if effect.unit is None else f":{effect.unit}"
    name = f"{effect.site.replace('_', '-')} {effect.layer}{unit}"
    if effect.receiver is not None:
        return f"{name} -> {effect.receiver}"
    position = found.name_of(effect)
    return name if position == "all" else f"{name}, {position}"


def strongest(found: Trace, count: int = STRONGEST) -> list[SiteEffect]:
    """Returns the effects that do most, of either sign."""
    what = shown_what(found)
    known = [effect for effect in found.effects if not math.isnan(getattr(effect, what))]
    return sorted(known, key=lambda effect: -abs(getattr(effect, what)))[:count]


def is_map(found: Trace) -> bool:
    """Returns whether the trace of each site is a map of layers by positions."""
    return all(effect.receiver is None and effect.unit is None for effect in found.effects)


def trace_html(found: Trace) -> str:
    """Returns a map for each site, the last layer on top, blue where a place recovers the other run; else a table."""
    said = "<br>".join(map(html.escape, heading(found)))
    if not is_map(found):
        rows = [[place_name(found, each), f"{getattr(each, shown_what(found)):+.3f}"] for each in strongest(found)]
        cells = ["".join(f'<td style="{CELL}">{html.escape(cell)}</td>' for cell in row) for row in rows]
        return _table(said, ["place", shown_what(found)], [f"<tr>{row}</tr>" for row in cells])
    return "".join(_map(found, site, said) for site in found.sites)


def _map(found: Trace, site: str, said: str) -> str:
    what = shown_what(found)
    values = found.matrix(what, site)[:, :MAX_POSITIONS]
    names = found.names[:MAX_POSITIONS]
    most = 1.0 if what == "recovery" else max((abs(each) for each in values.flat if not math.isnan(each)), default=1.0) or 1.0
    rows = [
        f'<tr><th scope="row" style="{CELL}">{found.layers[row]}</th>'
        + "".join(
            _cell(float(value), most, f"{name}, layer {found.layers[row]}")
            for name, value in zip(names, values[row], strict=True)
        )
        + "</tr>"
        for row in reversed(range(len(values)))
    ]
    left = len(found.names) - len(names)
    rest = f"; {left} more positions are not shown" if left else ""
    return _table(f"<b>{html.escape(SITES.get(site, site))}: {what}</b>{rest}<br>{said}", ["layer", *names], rows)


def _table(said: str, heads: Sequence[str], rows: Sequence[str]) -> str:
    # Notebooks would typeset what is between dollar signs, but for these classes.
    table = '<table class="tex2jax_ignore mathjax_ignore" style="border-collapse:collapse;margin-bottom:12px">'
    head = "".join(f'<th scope="col" style="{CELL}">{html.escape(name)}</th>' for name in heads)
    return (
        f'{table}<caption style="caption-side:top;text-align:left">{said}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    )


def _cell(value: float, most: float, where: str) -> str:
    if math.isnan(value):
        return f'<td style="{CELL}"></td>'
    colour = f"rgba({FOR if value > 0 else AGAINST},{OPACITY * min(1.0, abs(value) / most):.3f})"
    return f'<td title="{html.escape(where)}: {value:+.3f}" style="{CELL};background:{colour}">{round(value, 2) + 0.0:.2f}</td>'
