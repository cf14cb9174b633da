"""The questions of the Explore view: one text under changes of heads, and what each head is worth on texts."""

import base64
from collections.abc import AsyncGenerator, Callable
from types import MappingProxyType
from typing import Any

import bertscope
import numpy as np
from bertscope import (
    AsyncClient,
    HeadEffect,
    HeadIntervention,
    InspectedMaps,
    InspectionDistances,
    InspectionStart,
    MapView,
    scale,
)
from bertscope.errors import invalid_argument

from bertscope_workbench.explore.body import Body
from bertscope_workbench.explore.plain import plain
from bertscope_workbench.explore.streams import Event

MODES: MappingProxyType[str, Callable[[int, list[int]], HeadIntervention]] = MappingProxyType(
    {"zero": bertscope.zero, "uniform": bertscope.uniform, "mean": bertscope.mean}
)
PIXELS = 48
"""Rows and columns of a head's small picture: the most that its cell in the grid shows."""
DETAIL_PIXELS = 96
"""Up to so many tokens a chosen head is sent whole; beyond, as a picture of so many rows and columns."""


async def inspect(client: AsyncClient, body: Body) -> AsyncGenerator[Event, None]:
    """Yields `{"start": ...}` with tokens and predictions, `{"moved": [layers][heads]}` if heads are changed, then
    `{"pictures": ...}` with a small picture of each head, and `{"detail": ...}` with the map of one head.

    Fields: text, model, top_k, follow (words whose probability is shown in any case), changes, reference_texts, words,
    pictures (false leaves them out), detail {layer, head, rows, columns} (rows and columns: [first, one past the last]).
    """
    changes = [intervention(part) for part in body.parts("changes")]
    text, model, words = body.text("text"), body.optional_text("model"), body.flag("words")
    top_k, follow, reference = body.whole("top_k", 10), body.texts("follow"), body.texts("reference_texts")
    views = {}
    if body.flag("pictures", default=True):
        views["pictures"] = MapView(pixels=PIXELS, format="uint8")
    for part in body.parts("detail"):
        views["detail"] = detail_view(part)
    body.done()
    stream = client.stream_inspection(
        text,
        model=model,
        top_k=top_k,
        candidates=follow or None,
        interventions=changes,
        reference_texts=reference,
        truncate=True,
        compare_untouched=bool(changes),
        maps=[*views.values()],
        words=words,
    )
    names = [*views]
    async with stream:
        async for event in stream:
            if isinstance(event, InspectionStart):
                yield {"start": sent_start(event)}
            elif isinstance(event, InspectionDistances):
                yield {"moved": plain(event.moved)}
            else:
                yield {names[event.index]: sent_maps(event)}


async def worth(client: AsyncClient, body: Body) -> AsyncGenerator[Event, None]:
    """Changes one head after another, beside the changes given, and yields
    `{"effect": {"layer", "head", "difference", "low", "high", "no_interval"}}` for each: how far the predictions at the masks
    of the texts move, Kullback-Leibler divergence in nats.

    Fields: texts, model, mode ("zero", "uniform" or "scale"), factor, changes, reference_texts.
    """
    changes = [intervention(part) for part in body.parts("changes")]
    texts, model, reference = body.texts("texts"), body.optional_text("model"), body.texts("reference_texts")
    mode = body.text("mode", "zero")
    factor = body.number("factor", 0.0) if mode == "scale" else None
    body.done()
    sweep = client.sweep_heads(
        bertscope.Divergence(texts, truncate=True),
        model=model,
        mode=mode,  # type: ignore[arg-type]  # the client says which modes there are
        factor=factor,
        interventions=changes,
        reference_texts=reference,
    )
    async with sweep:
        async for event in sweep:
            if isinstance(event, HeadEffect):
                yield {"effect": _effect(event)}


def intervention(part: Body) -> HeadIntervention:
    """Reads `{"layer", "heads", "mode", "factor"}`."""
    layer, heads, mode = part.whole("layer"), part.wholes("heads"), part.text("mode")
    if mode == "scale":
        change = scale(layer, heads, factor=part.number("factor"))
    elif mode in MODES:
        change = MODES[mode](layer, heads)
    else:
        raise invalid_argument("changes", f"has the mode {mode[:50]!r}; modes are scale, {', '.join(MODES)}")
    part.done()
    return change


def detail_view(part: Body) -> MapView:
    """Reads `{"layer", "head", "rows", "columns"}`: one head, whole or a window of it."""
    heads = {part.whole("layer"): [part.whole("head")]}
    rows, columns = (_range(part, name) for name in ("rows", "columns"))
    part.done()
    return MapView(heads, pixels=DETAIL_PIXELS, rows=rows, columns=columns, format="float32")


def _range(part: Body, name: str) -> tuple[int, int] | None:
    found = part.wholes(name)
    if len(found) not in (0, 2):
        raise invalid_argument(name, "must be [first, one past the last]")
    return (found[0], found[1]) if found else None


def sent_start(start: InspectionStart) -> dict[str, Any]:
    """Returns tokens and predictions as the page reads them."""
    units = start.words or start.tokens
    table = [start._entries(number) for number in range(len(start.masks))]
    return {
        "tokens": [plain({name: getattr(unit, name) for name in ("text", "start", "end", "special")}) for unit in units],
        "pieces": len(start.tokens),
        "truncated_tokens": start.truncated_tokens,
        "masked_lm": start.masked_lm,
        "masks": [_mask(mask.start, mask.end, rows) for mask, rows in zip(start.masks, table, strict=True)],
        "layers": start.layers,
        "heads": start.heads,
        "compared": start.compared,
        "device_seconds": start.device_seconds,
        "weights_digest": start.provenance.weights_digest,
    }


def _mask(start: int, end: int, rows: list[tuple[Any, ...]]) -> dict[str, Any]:
    names = ("token", "probability", "rank", "before", "rank_before")
    return {"start": start, "end": end, "entries": [plain(dict(zip(names, row[4:], strict=True))) for row in rows]}


def sent_maps(maps: InspectedMaps) -> dict[str, Any]:
    """Returns maps as the page reads them: their cells as base64 of bytes or little-endian float32."""
    view = maps.view
    count, rows, columns = view.shape
    kind = np.dtype(np.uint8 if maps.cells.dtype == np.uint8 else "<f4")
    return {
        "first": list(view.heads[0]),
        "maps": count,
        "rows": rows,
        "columns": columns,
        "cell_size": view.cell_size,
        "row_range": list(view.rows),
        "column_range": list(view.columns),
        "type": kind.name,
        "data": base64.b64encode(np.ascontiguousarray(maps.cells, kind).tobytes()).decode(),
    }


def _effect(effect: HeadEffect) -> dict[str, Any]:
    (metric,) = effect.metrics.values()
    names = ("difference", "low", "high", "no_interval")
    return {"layer": effect.layer, "head": effect.head} | {name: plain(getattr(metric, name)) for name in names}
