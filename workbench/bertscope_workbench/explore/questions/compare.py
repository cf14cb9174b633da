"""The question of the Compare view: one text, two models, or one with and without changes of its heads."""

import asyncio
import dataclasses
from collections.abc import AsyncGenerator, Iterable, Sequence
from typing import Any

from bertscope import (
    AsyncClient,
    FailedPrecondition,
    FilledMask,
    InspectedMaps,
    InspectionStart,
    InvalidArgument,
    Prediction,
    Unimplemented,
)

from bertscope_workbench.explore.body import Body
from bertscope_workbench.explore.plain import plain
from bertscope_workbench.explore.questions.inspect import detail_view, intervention, sent_maps, sent_start
from bertscope_workbench.explore.streams import Event, error_event

Words = dict[tuple[str, ...], Prediction]
"""Predictions of one mask by their pieces: two entries of a vocabulary may be written alike."""


@dataclasses.dataclass
class _Side:
    start: InspectionStart
    maps: tuple[InspectedMaps, ...]
    words: list[Words]
    """One for each mask."""


async def compare(client: AsyncClient, body: Body) -> AsyncGenerator[Event, None]:
    """Yields `{"left": ..., "right": ...}`: the tokens, the predictions and the map of one head of both; then
    `{"distances": {"divergence": [layers][heads], "cosine": ...}}`, or `{"incomparable": error}` if heads can't be paired, or
    nothing more if both are one model, unchanged.

    Fields: text, model, other (the same model unless given), changes and reference_texts (of the other), top_k, detail {layer,
    head}. The words of a mask are those that either side finds likely, in the order of the left side.
    """
    changes = [intervention(part) for part in body.parts("changes")]
    text, model, other = body.text("text"), body.optional_text("model"), body.optional_text("other")
    top_k, reference = body.whole("top_k", 8), body.texts("reference_texts")
    views = [detail_view(part) for part in body.parts("detail")]
    body.done()
    changed: dict[str, Any] = {"interventions": changes, "reference_texts": reference}

    async def ask(name: str | None, follow: Iterable[str] = (), **more: Any) -> _Side:
        maps = () if follow else views
        found = await client.inspect(text, model=name, top_k=top_k, candidates=follow or None, truncate=True, maps=maps, **more)
        return _Side(found.start, found.maps, [_words(mask) for mask in found.masks])

    if changes and other in (None, model):
        both = [*views, *(dataclasses.replace(view, untouched=True) for view in views)]
        found = await client.inspect(
            text, model=model, top_k=top_k, truncate=True, maps=both, compare_untouched=True, **changed
        )
        right = _Side(found.start, found.maps[: len(views)], [_words(mask) for mask in found.masks])
        left = _Side(found.start, found.maps[len(views) :], [_words(mask) for mask in found.untouched_masks])
    else:
        left, right = await asyncio.gather(ask(model), ask(other or model, **changed))
        asked: tuple[tuple[_Side, _Side, str | None, dict[str, Any]], ...]
        asked = ((left, right, model, {}), (right, left, other or model, changed))
        for side, theirs, name, more in asked:
            if lacking := _lacking(side, theirs):
                _add(side, theirs, await _if_sayable(ask(name, lacking, **more)))
    order = [sorted(words, key=lambda pieces: -words[pieces].probability) for words in left.words]
    yield {"left": _sent(left, order), "right": _sent(right, order)}
    if not changes and left.start.provenance.model == right.start.provenance.model:
        return
    try:
        distances = await client.compare_attention(
            text,
            other or model or left.start.provenance.model,
            model=model,
            interventions=changes,
            reference_texts=reference,
            truncate=True,
        )
    except (FailedPrecondition, InvalidArgument, Unimplemented) as error:
        yield {"incomparable": error_event(error)["error"]}
    else:
        yield {"distances": {"divergence": plain(distances.divergence.mean()), "cosine": plain(distances.cosine.mean())}}


def _words(mask: FilledMask) -> Words:
    return {entry.pieces: entry for entry in mask.predictions}


def _lacking(side: _Side, theirs: _Side) -> list[str]:
    """Returns the words of the other side's masks that this one did not give."""
    pairs = zip(side.words, theirs.words, strict=False)  # A model without a masked-LM head has no masks.
    return sorted({entry.token for mine, words in pairs for pieces, entry in words.items() if pieces not in mine})


async def _if_sayable(asked: Any) -> _Side | None:
    """Returns None if a word is no single entry of the vocabulary: then only those are paired that both find likely."""
    try:
        side: _Side = await asked
    except InvalidArgument:
        return None
    return side


def _add(side: _Side, theirs: _Side, more: _Side | None) -> None:
    """Adds the words of the other side that were asked for, as far as they are the same pieces."""
    for mine, words, found in zip(side.words, theirs.words, more.words if more else (), strict=False):
        mine |= {pieces: entry for pieces, entry in found.items() if pieces in words}


def _sent(side: _Side, order: Sequence[Sequence[tuple[str, ...]]]) -> dict[str, Any]:
    start = sent_start(side.start)
    for mask, words, first in zip(start["masks"], side.words, order, strict=False):
        known = [pieces for pieces in first if pieces in words]
        rest = sorted(words.keys() - set(known), key=lambda pieces, words=words: -words[pieces].probability)  # type: ignore[misc]  # bound now
        mask["entries"] = [
            {"token": words[pieces].token, "key": " ".join(pieces), "probability": words[pieces].probability}
            for pieces in (*known, *rest)
        ]
    return {"start": start, "detail": sent_maps(side.maps[0]) if side.maps else None}
