"""The questions of the Trace view: which places carry an answer, and what the model says with one of them patched."""

from collections.abc import AsyncGenerator
from typing import Any, cast

import bertscope
from bertscope import Answer, AsyncClient, PairValues, PatchDirection, Site, SiteEffect
from bertscope.errors import invalid_argument

from bertscope_workbench.explore.body import Body
from bertscope_workbench.explore.plain import plain
from bertscope_workbench.explore.streams import Event

TOP = 5
"""Predictions that are shown of the text with a patch."""


async def trace(client: AsyncClient, body: Body) -> AsyncGenerator[Event, None]:
    """Yields `{"start": {...}}` with the tokens of both texts and the values without changes, then `{"effects": [...]}` as they
    come, those of a layer at a time: [layer, position, recovery (null without one), difference].

    Fields: text (the clean one), other (the corrupted one), model, answer, against (a word whose score is subtracted), site,
    direction.
    """
    text, other, model = body.text("text"), body.text("other"), body.optional_text("model")
    target = Answer(body.text("answer"), body.optional_text("against"))
    site = cast("Site | None", body.optional_text("site"))  # The client judges both.
    direction = cast("PatchDirection | None", body.optional_text("direction"))
    body.done()
    async with client.sweep_sites(text, other, target, model=model, sites=site, direction=direction) as running:
        start = await running.started()
        (pair,) = start.pairs
        yield {"start": _start(pair, start.total)}
        waiting = list[SiteEffect]()
        async for effect in running:
            if waiting and waiting[-1].layer != effect.layer:
                yield {"effects": [*map(_sent, waiting)]}
                waiting = []
            waiting.append(effect)
        yield {"effects": [*map(_sent, waiting)]}


async def patched(client: AsyncClient, body: Body) -> AsyncGenerator[Event, None]:
    """Yields `{"patched": [[token, probability, probability without the patch], ...]}` for the mask of a text.

    Fields: text (into which it is put), source (the text it comes from), model, site, layer, position.
    """
    text, source, model = body.text("text"), body.text("source"), body.optional_text("model")
    site, layer, position = body.text("site", "state"), body.whole("layer"), body.whole("position")
    body.done()
    change = bertscope.patch(layer, source, site=cast("Site", site), positions=[position])
    (found,) = await client.fill_mask(text, model=model, top_k=TOP, interventions=change)
    if not found.masks:
        raise invalid_argument("text", "has no mask; write [MASK] where a word is to be predicted")
    words = [each.token for each in found.masks[0].predictions]
    (before,) = await client.fill_mask(text, model=model, candidates=words)
    untouched = {each.token: each.probability for each in before.masks[0].predictions}
    yield {"patched": [[each.token, each.probability, untouched.get(each.token)] for each in found.masks[0].predictions]}


def _start(pair: PairValues, total: int) -> dict[str, Any]:
    both = pair.tokens, pair.corrupted_tokens or pair.tokens
    return {
        "tokens": [token.text for token in both[0]],
        "other": [token.text for token in both[1]],
        "differ": [one.id != two.id for one, two in zip(*both, strict=True)],
        "clean": pair.clean,
        "corrupted": pair.corrupted,
        "total": total,
    }


def _sent(effect: SiteEffect) -> list[Any]:
    return [effect.layer, effect.position, plain(effect.recovery), plain(effect.difference)]
