"""The request of Inspect, and the maps that it asks for."""

from __future__ import annotations

from bertscope.errors import invalid_argument
from bertscope.v1 import common_pb2, inspection_pb2
from bertscope.values import validation
from bertscope.values.choices import MapFormat
from bertscope.values.display import record
from bertscope.values.messages import enum_value
from bertscope.values.validation import HeadsByLayer

__all__ = ["MapView"]


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


def view_message(field: str, view: object) -> inspection_pb2.MapView:
    """Returns the message of a view."""
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
        format=enum_value(f"{field}.format", view.format, inspection_pb2.MapFormat),
        untouched=validation.flag(f"{field}.untouched", view.untouched),
    )


def _range(field: str, value: tuple[int, int] | None) -> inspection_pb2.UnitRange | None:
    if value is None:
        return None
    start, end = validation.pair(field, value, "(start, end)")
    return inspection_pb2.UnitRange(start=validation.uint32(f"{field}[0]", start), end=validation.uint32(f"{field}[1]", end))
