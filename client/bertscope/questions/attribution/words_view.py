"""Shows the words of texts in colour, each with its value, in a notebook, without matplotlib and pandas."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bertscope.questions.attribution.words import WordAttribution

MAX_TEXTS = 10
"""The most texts that are shown."""
MAX_WORDS = 300
"""The most words of a text that are shown."""
FOR, AGAINST, OPACITY = "36,112,179", "217,113,28", 0.7
"""Blue for the number and orange against it, which colour-blind people tell apart, and how much of the page the largest value
hides: text in the page's own colour is readable on all of the scale, on light pages and on dark ones."""
WORD = "display:inline-block;text-align:center;margin:2px 1px;padding:1px 4px;border-radius:3px"


def words_html(found: Sequence[WordAttribution]) -> str:
    """Returns the words of each text, blue where they raise the number and orange where they lower it, the stronger the more; a
    signed value is under each word, and its interval where the pointer is."""
    parts = [_text(text) for text in found[:MAX_TEXTS]]
    if len(found) > MAX_TEXTS:
        parts.append(f"<p>{len(found) - MAX_TEXTS} more texts are not shown</p>")
    return "".join(parts)


def _text(found: WordAttribution) -> str:
    most = max(map(abs, found.values.tolist()), default=0.0) or 1.0
    ends = found.interval()
    words = [
        _word(word, value, value / most, f", 95 % interval {ends[index].low:+.3f} to {ends[index].high:+.3f}" if ends else "")
        for index, (word, value) in enumerate(zip(found.words[:MAX_WORDS], found.values.tolist(), strict=False))
    ]
    left = len(found.words) - len(words)
    rest = f"; {left} more words are not shown" if left else ""
    said = f"{found.method.replace('_', ' ')}, absent words: {found.absent}; {found.provenance.model}{rest}"
    # Notebooks would typeset what is between dollar signs, but for these classes.
    return (
        f'<div class="tex2jax_ignore mathjax_ignore" style="margin-bottom:12px;line-height:1.3">{" ".join(words)}'
        f"<div>{html.escape(sum_line(found))}<br><small>{html.escape(said)}</small></div></div>"
    )


def sum_line(found: WordAttribution) -> str:
    """Returns how the values add up: "sum +5.10, rest +0.00 = 5.13 - 0.03"."""
    rest = f", rest {found.rest:+.2f}" if abs(found.rest) >= 0.005 else ""
    sign, absent = ("+", -found.value_absent) if found.value_absent < 0 else ("-", found.value_absent)
    label = f"{found.label}: " if found.label else ""
    return f"{label}sum {float(found.values.sum()):.2f}{rest} = {found.value:.2f} {sign} {absent:.2f}"


def _word(word: str, value: float, share: float, interval: str) -> str:
    colour = f"rgba({FOR if share > 0 else AGAINST},{OPACITY * abs(share):.3f})"
    said = html.escape(f"{word}: {value:+.4f}{interval}")
    return (
        f'<span title="{said}" style="{WORD};background:{colour}">{html.escape(word)}<br>'
        f'<small style="font-variant-numeric:tabular-nums">{value:+.2f}</small></span>'
    )
