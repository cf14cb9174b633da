"""Requests of ReadLayers with a tuned lens, whose maps go in several calls if they are large."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from bertscope.errors import InvalidArgument, invalid_argument
from bertscope.questions.representations.lens import NORMALISATIONS, LensText
from bertscope.questions.representations.tuned_lens import TunedLens
from bertscope.rpc.splitting import OnRejected
from bertscope.v1.representation_lens_pb2 import LensInput, ReadLayersRequest, Translator
from bertscope.values.vectors import tensor

MAPS_BYTES = 8 * 1024 * 1024
"""The maps that a call takes, unless one layer's are more: half of what a server takes in a message."""
TEXTS = 64
"""Texts that are read by all calls about them before the next ones are."""


def requests_with(request: ReadLayersRequest, lens: TunedLens | None) -> list[ReadLayersRequest]:
    """Returns the requests that read the layers of one, each with the maps of its own. Raises InvalidArgument for a layer
    without a map."""
    if lens is None:
        return [request]
    if not isinstance(lens, TunedLens):
        raise invalid_argument("lens", f"must be a TunedLens, which train_lens makes, not {type(lens).__name__}")
    layers = list(request.layers) or [*lens.layers, lens.last_layer]
    for layer in layers:
        if layer not in lens.maps and layer != lens.last_layer:
            raise invalid_argument("layers", f"has layer {layer}, and the lens has maps of {list(lens.layers)}")
    found = []
    for group in _groups(layers, lens):
        own = ReadLayersRequest()
        own.CopyFrom(request)
        own.layers[:] = group
        own.weights_digest = lens.weights_digest
        own.normalisation = own.normalisation or NORMALISATIONS[lens.normalisation]
        own.translators.extend(_translator(layer, lens) for layer in group if layer != lens.last_layer)
        found.append(own)
    return found


def _groups(layers: Sequence[int], lens: TunedLens) -> Iterator[Sequence[int]]:
    most = max(1, MAPS_BYTES // next(iter(lens.maps.values())).nbytes)
    for begin in range(0, len(layers), most):
        yield layers[begin : begin + most]


def _translator(layer: int, lens: TunedLens) -> Translator:
    return Translator(layer=layer, affine=tensor(lens.maps[layer]))


class Rejected:
    """Takes rejected texts out of those that are left, by their indices, and reports them."""

    def __init__(self, left: dict[int, LensInput], report: OnRejected) -> None:
        self._left, self._report = left, report

    def __call__(self, index: int, error: InvalidArgument) -> None:
        del self._left[index]
        self._report(index, error)


def merged(parts: Sequence[LensText]) -> LensText:
    """Returns the readings of a text from several calls about other layers, in their order."""
    positions = (
        replace(places[0], layers=tuple(layer for place in places for layer in place.layers))
        for places in zip(*(part.positions for part in parts), strict=True)
    )
    return replace(parts[0], positions=tuple(positions), layers=tuple(layer for part in parts for layer in part.layers))
