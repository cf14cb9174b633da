"""The question of the switch "words": which words of a text made the score of one prediction."""

from collections.abc import AsyncGenerator
from typing import Any

from bertscope import Answer, AsyncClient, WordAttribution
from bertscope.questions.attribution.inputs import EXACT_UNITS

from bertscope_workbench.explore.body import Body
from bertscope_workbench.explore.plain import plain
from bertscope_workbench.explore.questions.inspect import intervention
from bertscope_workbench.explore.streams import Event
from bertscope_workbench.plots.words_html import signed, sum_line

ROWS, STEP_ROWS = 1024, 256
"""Texts that run for sampled values in all, as many as for exact ones of ten words, and between two answers."""
MIN_PAIRS, STEP_PAIRS = 10, 5
"""At least so many pairs of orders are sampled; at most so many between two answers."""


async def attribute(client: AsyncClient, body: Body) -> AsyncGenerator[Event, None]:
    """Yields `{"words": ...}` again and again, each time for the same words: by occlusion, which is quick; then exact Shapley
    values of up to ten words, of longer texts sampled ones over more and more pairs of orders.

    Fields: text, model, answer (a word), other (a word whose score is subtracted), mask (its number), changes, reference_texts.
    """
    changes = [intervention(part) for part in body.parts("changes")]
    text, model, reference = body.text("text"), body.optional_text("model"), body.texts("reference_texts")
    target = Answer(body.text("answer"), body.optional_text("other"), body.whole("mask", 0))
    body.done()

    async def ask(**how: Any) -> WordAttribution:
        (found,) = await client.attribute_words(
            text, target, model=model, interventions=changes, reference_texts=reference, truncate=True, **how
        )
        return found

    found = await ask(method="occlusion")
    yield {"words": sent(found)}
    count = len(found.units)
    if count <= EXACT_UNITS:
        yield {"words": sent(await ask())}
        return
    each = 2 * (count - 1)
    pairs, step = max(MIN_PAIRS, ROWS // each), min(STEP_PAIRS, max(1, STEP_ROWS // each))
    merged: WordAttribution | None = None
    for first in range(0, pairs, step):
        part = await ask(first_pair=first, pairs=min(step, pairs - first))
        merged = part if merged is None else merged + part
        yield {"words": sent(merged)}


def sent(found: WordAttribution) -> dict[str, Any]:
    """Returns an attribution as the page reads it; numbers that it shows are written as the command writes them."""
    ends = found.interval()
    return {
        "method": found.method,
        "absent": found.absent,
        "pairs": found.pairs,
        "places": [[unit.start, unit.end] for unit in found.units],
        "values": plain(found.values),
        "numbers": [signed(found, value) for value in found.values],
        "intervals": None if ends is None else [[signed(found, end) for end in each] for each in ends],
        "sum": sum_line(found),
    }
