"""Shows the words of texts in colour, each with its value, in a notebook, without matplotlib and pandas."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from bertscope.values.score_targets import described

if TYPE_CHECKING:
    from bertscope.questions.attribution.words import WordAttribution

MAX_TEXTS = 10
"""The most texts that are shown."""
MAX_WORDS = 400
"""The most words of a text that are shown."""
FOR, AGAINST, OPACITY = "36,112,179", "217,113,28", 0.7
"""Blue for the number and orange against it, which colour-blind people tell apart, and how much of the page the largest value
hides: text in the page's own colour is readable on all of the scale, on light pages and on dark ones."""
MOST_DIGITS = 6
WORD = "display:inline-block;text-align:center;margin:2px 1px;padding:1px 4px;border-radius:3px"
NUMBER = "font-variant-numeric:tabular-nums"


def shown_parts(found: WordAttribution) -> Iterator[tuple[str, int | None]]:
    """Yields the words of a text in order, each with the index of its value; None for words without one, such as masks."""
    texts = (found.text,) if isinstance(found.text, str) else found.text
    order = sorted(range(len(found.units)), key=lambda index: (found.units[index].segment, found.units[index].start))
    for segment, text in enumerate(texts):
        if segment:
            yield "/", None
        done = 0
        for index in order:
            unit = found.units[index]
            if unit.segment == segment:
                yield from ((word, None) for word in text[done : unit.start].split())
                yield text[unit.start : unit.end].strip() or unit.text, index
                done = max(done, unit.end)
        yield from ((word, None) for word in text[done:].split())


def signed(found: WordAttribution, value: float) -> str:
    """Returns a value with its sign, to hundredths, or to three digits of the largest value if that is below 1."""
    most = float(abs(found.values).max(initial=0))
    digits = min(MOST_DIGITS, max(2, 2 - math.floor(math.log10(most)))) if most else 2
    return f"{round(value, digits) + 0.0:+.{digits}f}"  # 0.0 is added so that no 0 has a minus sign.


def sum_line(found: WordAttribution) -> str:
    """Returns how the values add up: "sum 5.10 = 5.13 - 0.03 (1,024 texts)"."""
    sums, value, rest, absent = (
        signed(found, number).lstrip("+")
        for number in (float(found.values.sum()), found.value, abs(found.rest), abs(found.value_absent))
    )
    more = "" if not float(rest) else f" {'+' if found.rest > 0 else '-'} rest {rest}"
    noun = "text" if found.method in ("shapley", "occlusion") else "run"  # Gradients run mixtures of two texts.
    runs = f"{found.evaluations:,} {noun}{'' if found.evaluations == 1 else 's'}"
    return f"sum {sums}{more} = {value} {'+' if found.value_absent < 0 else '-'} {absent} ({runs})"


def words_html(found: Sequence[WordAttribution]) -> str:
    """Returns the words of each text, blue where they raise the number and orange where they lower it, the stronger the more; a
    signed value is under each word, and its interval where the pointer is."""
    parts = [_text(text) for text in found[:MAX_TEXTS]]
    if len(found) > MAX_TEXTS:
        parts.append(f"<p>{len(found) - MAX_TEXTS} more texts are not shown</p>")
    return "".join(parts)


def _text(found: WordAttribution) -> str:
    ends = found.interval()
    most = float(abs(found.values).max(initial=0)) or 1.0
    words = list[str]()
    parts = list(shown_parts(found))
    for word, index in parts[:MAX_WORDS]:
        if index is None:
            words.append(f'<span style="{WORD}">{html.escape(word)}<br><small>&nbsp;</small></span>')
            continue
        value = float(found.values[index])
        interval = "" if ends is None else f", 95 % interval {ends[index].low:+.3f} to {ends[index].high:+.3f}"
        words.append(_word(word, signed(found, value), value / most, interval))
    left = f"; {len(parts) - MAX_WORDS} more words are not shown" if len(parts) > MAX_WORDS else ""
    said = f"{found.method.replace('_', ' ')}, absent words: {found.absent}; {found.provenance.model}{left}"
    lines = (
        f"<b>{html.escape(described(found.target, found.label))}</b><div>{' '.join(words)}</div>{html.escape(sum_line(found))}"
    )
    # Notebooks would typeset what is between dollar signs, but for these classes.
    return (
        f'<div class="tex2jax_ignore mathjax_ignore" style="margin-bottom:12px;line-height:1.3">{lines}'
        f"<br><small>{html.escape(said)}</small></div>"
    )


def _word(word: str, value: str, share: float, interval: str) -> str:
    colour = f"rgba({FOR if share > 0 else AGAINST},{OPACITY * abs(share):.3f})"
    said = html.escape(f"{word}: {value}{interval}")
    return (
        f'<span title="{said}" style="{WORD};background:{colour}">{html.escape(word)}<br>'
        f'<small style="{NUMBER}">{value}</small></span>'
    )
