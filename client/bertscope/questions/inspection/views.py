"""The request of Inspect, and the maps that it asks for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import SupportsIndex

from bertscope.errors import invalid_argument
from bertscope.v1 import attention_pb2, common_pb2, inspection_pb2
from bertscope.values import validation
from bertscope.values.all_interventions import Interventions, intervention_fields
from bertscope.values.choices import MapFormat
from bertscope.values.display import record
from bertscope.values.messages import text_input, values
from bertscope.values.models import Model, model_name
from bertscope.values.validation import HeadsByLayer, TextOrPair

__all__ = ["MapView"]

FORMATS = values(MapFormat, inspection_pb2.MapFormat, "MAP_FORMAT_")


@record
class MapView:
    """Maps that `inspect` is to send: whole ones, a window of them, or pictures of at most `pixels` rows and columns.

    >>> MapView(pixels=32, format="uint8")
    MapView(heads=None, pixels=32, rows=None, columns=None, format='uint8', untouched=False)
    """

    heads: HeadsByLayer | None = None
    """The heads, a mapping {layer: head, heads or None for all}; None means every head of every layer."""
    pixels: int | None = None
    """The most rows and columns of a picture, 1 to 128: each cell is the maximum over a square of weights. None
    means whole maps."""
    rows: tuple[int, int] | None = None
    """The first row and one past the last, pieces or words; None means all."""
    columns: tuple[int, int] | None = None
    """The first column and one past the last; None means all."""
    format: MapFormat = "float16"
    """How weights travel: "float16", "float32", or "uint8" for 255 levels of 0 to 1."""
    untouched: bool = False
    """True: the maps of the untouched run."""


def inspect_request(
    text: TextOrPair,
    *,
    model: str | Model | None,
    top_k: SupportsIndex | None,
    candidates: str | Iterable[str],
    interventions: Interventions,
    reference_texts: str | Iterable[str],
    truncate: bool,
    compare_untouched: bool,
    divergences: bool,
    maps: MapView | Iterable[MapView],
    words: bool,
) -> inspection_pb2.InspectRequest:
    """Returns the request of Inspect."""
    by_word = validation.flag("words", words)
    views = [maps] if isinstance(maps, MapView) else [*validation.many("maps", maps, "MapView objects")]
    return inspection_pb2.InspectRequest(
        model=model_name("model", model),
        input=text_input(validation.text_or_pair("text", text)),
        top_k=None if top_k is None else validation.uint32("top_k", top_k),
        candidates=validation.texts("candidates", candidates),
        **intervention_fields(interventions),
        reference_texts=validation.texts("reference_texts", reference_texts),
        truncate=validation.flag("truncate", truncate),
        compare_untouched=validation.flag("compare_untouched", compare_untouched),
        divergences=validation.flag("divergences", divergences),
        maps=[_view(f"maps[{index}]", view) for index, view in enumerate(views)],
        level=attention_pb2.ATTENTION_LEVEL_WORD if by_word else attention_pb2.ATTENTION_LEVEL_PIECE,
    )


def _view(field: str, view: object) -> inspection_pb2.MapView:
    if not isinstance(view, MapView):
        raise invalid_argument(field, "must be a bertscope.MapView")
    heads = {} if view.heads is None else validation.heads_by_layer(f"{field}.heads", view.heads)
    if view.heads is not None:
        validation.not_empty(f"{field}.heads", [*heads])
    return inspection_pb2.MapView(
        heads=[common_pb2.LayerHeads(layer=layer, heads=numbers) for layer, numbers in heads.items()],
        pixels=0 if view.pixels is None else validation.positive(f"{field}.pixels", view.pixels),
        rows=_range(f"{field}.rows", view.rows),
        columns=_range(f"{field}.columns", view.columns),
        format=validation.choice(f"{field}.format", view.format, FORMATS),
        untouched=validation.flag(f"{field}.untouched", view.untouched),
    )


def _range(field: str, value: tuple[int, int] | None) -> inspection_pb2.UnitRange | None:
    if value is None:
        return None
    start, end = validation.pair(field, value, "(start, end)")
    return inspection_pb2.UnitRange(start=validation.uint32(f"{field}[0]", start), end=validation.uint32(f"{field}[1]", end))
