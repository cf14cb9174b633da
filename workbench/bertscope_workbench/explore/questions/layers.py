"""The question of the Layers view: what the masked-LM head reads in each layer's states."""

from collections.abc import AsyncGenerator
from typing import Any, cast

from bertscope import AsyncClient, LayerReading, LensInput, LensNormalisation, LensPosition
from bertscope.errors import invalid_argument

from bertscope_workbench.explore.body import Body
from bertscope_workbench.explore.streams import Event

POSITIONS = 48
"""A text of more tokens is read in windows of so many, without special tokens."""
TOP = 5
"""Entries of a cell."""


async def lens(client: AsyncClient, body: Body) -> AsyncGenerator[Event, None]:
    """Yields `{"lens": {...}}`: for each token and layer the likeliest entries, entropy and divergence, and where the answer
    stands.

    Fields: text, model, normalisation ("none" or "final"; missing: as the model needs it), answer (a word that is followed),
    first (of a long text: the first token that is read, from 0).
    """
    text, model = body.text("text"), body.optional_text("model")
    normalisation = cast("LensNormalisation | None", body.optional_text("normalisation"))  # The client judges it.
    answer, first = body.optional_text("answer"), body.whole("first", 0)
    body.done()
    if first < 0:
        raise invalid_argument("first", "must be 0 or more")
    part = await _window(client, text, model, first)
    found = await client.read_layers(
        text if part is None else part,
        model=model,
        top_k=TOP,
        candidates=answer,
        all_pieces=part is None,
        normalisation=normalisation,
        truncate=True,
    )
    (read,) = found
    yield {
        "lens": {
            "layers": list(read.layers),
            "normalisation": read.normalisation,
            "tokens": read.tokens,
            "truncated_tokens": read.truncated_tokens,
            "window": POSITIONS,
            "parts": [] if part is None else [[start, end] for start, end, *_ in part.parts],
            "positions": [_position(position) for position in read.positions],
        }
    }


async def _window(client: AsyncClient, text: str, model: str | None, first: int) -> LensInput | None:
    """Returns the part of a long text that is read; None if all of the text is."""
    if len(text) <= POSITIONS:
        return None
    inspected = await client.inspect(text, model=model, truncate=True)
    if len(inspected.start.tokens) <= POSITIONS:
        return None
    tokens = [token for token in inspected.start.tokens[first:] if not token.special]
    tokens = tokens or [token for token in inspected.start.tokens if not token.special]
    window = tokens[:POSITIONS]
    return LensInput(text, [(window[0].start, window[-1].end)])


def _position(position: LensPosition) -> dict[str, Any]:
    return {
        "token": position.token.text,
        "index": position.token_index,
        "mask": position.mask,
        "layers": [_reading(reading) for reading in position.layers],
    }


def _reading(reading: LayerReading) -> dict[str, Any]:
    sent: dict[str, Any] = {
        "top": [[entry.token, entry.probability] for entry in reading.top],
        "entropy": reading.entropy,
        "divergence": reading.divergence,
    }
    for entry in reading.candidates:
        sent |= {"answer": {"probability": entry.probability, "rank": entry.rank}}
    return sent
