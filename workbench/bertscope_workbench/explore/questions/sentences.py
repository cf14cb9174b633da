"""Questions about what heads do in texts: in each of many, with what fills their masks, and over all of them."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from bertscope import AsyncClient, BertscopeError, InvalidArgument
from bertscope.errors import invalid_argument
from bertscope.questions.attention.description import STATISTICS

from bertscope_workbench.explore.body import Body
from bertscope_workbench.explore.plain import plain
from bertscope_workbench.explore.streams import Event, each_of

MAX_TEXTS = 1000
MASK = "[MASK]"
ANSWERS = 3


async def sentences(client: AsyncClient, body: Body) -> AsyncGenerator[Event, None]:
    """Yields `{"text": index, "tokens": n, "values": [layers][heads], "patterns": [layers][heads], "answers": [...]}` for each
    text, in any order; `{"text": index, "left_out": message}` for one that the server rejects.

    `values` are of one statistic of `describe_attention`, `patterns` the classes of the maps; `answers` are the likeliest words
    of the first mask, with their probabilities, empty without a mask or a masked-LM head.

    Fields: texts (at most 1,000), model, statistic.
    """
    texts, model, statistic = body.texts("texts"), body.optional_text("model"), body.text("statistic", STATISTICS[0])
    body.done()
    if not 0 < len(texts) <= MAX_TEXTS:
        raise invalid_argument("texts", f"must be 1 to {MAX_TEXTS} sentences")
    if statistic not in STATISTICS:
        raise invalid_argument("statistic", f"must be one of {', '.join(STATISTICS)}")
    model = (await client.get_model(model)).name
    async with aclosing(each_of(texts, lambda index, text: _described(client, index, text, model, statistic))) as events:
        async for event in events:
            yield event


async def describe(client: AsyncClient, body: Body) -> AsyncGenerator[Event, None]:
    """Yields `{"statistics": {name: [layers][heads]}, "patterns": [layers][heads]}`: the means of all statistics of
    `describe_attention` over the texts, and the class of most maps of each head, empty for a head that was pruned away.

    Fields: texts (at most 1,000), model.
    """
    texts, model = body.texts("texts"), body.optional_text("model")
    body.done()
    if not 0 < len(texts) <= MAX_TEXTS:
        raise invalid_argument("texts", f"must be 1 to {MAX_TEXTS} sentences")
    found = await client.describe_attention(texts, model=model)
    means = {name: plain(found.mean(name).round(4)) for name in found.statistics}
    yield {"statistics": means, "patterns": plain(found.majority())}


async def _described(client: AsyncClient, index: int, text: str, model: str, statistic: str) -> Event:
    try:
        found = await client.describe_attention([text], model=model)
        answers = await _answers(client, text, model)
    except InvalidArgument as error:
        return {"text": index, "left_out": str(error)}
    values = plain(found.mean(statistic).round(6)) if statistic in found.statistics else None
    return {"text": index, "tokens": found.tokens, "values": values, "patterns": plain(found.majority()), "answers": answers}


async def _answers(client: AsyncClient, text: str, model: str) -> list[Any]:
    if MASK not in text:
        return []
    try:
        filled = await client.fill_mask(text, model=model, top_k=ANSWERS)
    except BertscopeError as error:
        if error.reason == "NO_MASKED_LM_HEAD":  # Without a masked-LM head there is attention all the same.
            return []
        raise
    return [[entry.token, entry.probability] for entry in filled[0].masks[0].predictions]
