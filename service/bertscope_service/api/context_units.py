"""Reads the units of a FindContexts request."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from bertscope.v1 import representation_contexts_pb2 as contexts_pb2

from bertscope_service.analyses.observers.context_units import (
    ACTIVATIONS,
    COSINES,
    PRODUCTS,
    WEIGHTS,
    Directions,
    UnitKind,
    UnitSet,
)
from bertscope_service.api.checks import check_number, check_numbers, parse_layer_heads
from bertscope_service.api.requirements import require_observable, require_states
from bertscope_service.api.site_vectors import VECTOR
from bertscope_service.api.sites import SITES
from bertscope_service.api.tensors import parse_tensor
from bertscope_service.encoders.base import ChangesSites
from bertscope_service.encoders.sites import Site
from bertscope_service.errors import InvalidArgument, Unsupported
from bertscope_service.models.loaded import LoadedModel

MAX_DIRECTIONS = 65_536
MAX_DIRECTION_BYTES = 16 * 1024 * 1024


def read_units(request: contexts_pb2.FindContextsRequest, model: LoadedModel) -> list[UnitSet]:
    """Returns the units, a set for each layer of heads or activations and for each set of directions.

    Raises InvalidArgument, and Unsupported for a model that does not show them."""
    require_observable(model)
    sets = [*_heads(request, model), *_activations(request, model), *_directions(request, model)]
    if not sets:
        message = "heads, activations and directions are empty, so there is nothing to search for; name at least one unit"
        raise InvalidArgument("heads", message, "NO_CONTEXT_UNITS")
    return sets


def _heads(request: contexts_pb2.FindContextsRequest, model: LoadedModel) -> Iterator[UnitSet]:
    if not request.HasField("heads"):
        return
    shape, pairs = model.encoder.shape, request.heads.pattern == contexts_pb2.HeadUnits.PATTERN_PAIRS
    named = parse_layer_heads(request.heads.heads, "heads.heads", shape, model.name)
    for layer, heads in named or [(layer, tuple(range(shape.heads))) for layer in range(shape.layers)]:
        every = len(heads) == shape.heads
        yield UnitSet(UnitKind.HEAD, layer, layer, np.array(heads, dtype=np.int64), every, WEIGHTS, pairs=pairs)


def _activations(request: contexts_pb2.FindContextsRequest, model: LoadedModel) -> Iterator[UnitSet]:
    if not request.HasField("activations"):
        return
    shape, seen = model.encoder.shape, set[int]()
    entries = request.activations.layers  # as they are: a list of a million would be made at once, with the interpreter held
    for index, entry in enumerate(entries):
        field = f"activations.layers[{index}]"
        check_number(entry.layer, f"{field}.layer", "layer", shape.layers, model.name)
        if entry.layer in seen:
            message = f"layer {entry.layer} is listed twice in activations; list each once"
            raise InvalidArgument(f"{field}.layer", message, "DUPLICATE")
        seen.add(entry.layer)
    for index, entry in enumerate(entries or [contexts_pb2.LayerActivations(layer=layer) for layer in range(shape.layers)]):
        size = _site_size(model, Site.ACTIVATIONS, entry.layer)
        numbers = check_numbers(entry.units, f"activations.layers[{index}].units", "activation", size, model.name)
        units = np.sort(np.array(numbers, dtype=np.int64))
        place = (Site.ACTIVATIONS, entry.layer)
        yield UnitSet(UnitKind.ACTIVATION, entry.layer, entry.layer, units, len(units) == size, ACTIVATIONS, place)


def _directions(request: contexts_pb2.FindContextsRequest, model: LoadedModel) -> Iterator[UnitSet]:
    size = sum(len(entry.vectors.data) for entry in request.directions)
    if size > MAX_DIRECTION_BYTES:
        message = f"the vectors of directions have {size} bytes and a request may have {MAX_DIRECTION_BYTES}; send fewer"
        raise InvalidArgument("directions", message, "VECTORS_TOO_LARGE", limit=MAX_DIRECTION_BYTES)
    for index, entry in enumerate(request.directions):
        field, site = f"directions[{index}]", SITES[entry.site]
        check_number(entry.layer, f"{field}.layer", "layer", model.encoder.shape.layers + (site is Site.STATE), model.name)
        found = _read_directions(entry, field, _site_size(model, site, entry.layer))
        units = np.arange(len(found.vectors))
        bins = COSINES if found.cosine else PRODUCTS
        yield UnitSet(UnitKind.DIRECTION, entry.layer, index, units, True, bins, (site, entry.layer), directions=found)


def _read_directions(entry: contexts_pb2.DirectionUnits, field: str, size: int) -> Directions:
    count = entry.vectors.shape[0] if len(entry.vectors.shape) == 2 else 0
    if not 1 <= count <= MAX_DIRECTIONS:
        told = f"{field}.vectors has shape {list(entry.vectors.shape[:3])} and must have [directions, {size}]"
        raise InvalidArgument(f"{field}.vectors", f"{told}, 1 to {MAX_DIRECTIONS} of them; send such a matrix", "VECTOR_SIZE")
    vectors = parse_tensor(entry.vectors, f"{field}.vectors", (count, size), VECTOR)
    biases = np.zeros(count, dtype=np.float32)
    if entry.HasField("biases"):
        if entry.cosine:
            raise InvalidArgument(
                f"{field}.biases", f"{field} has biases, and a cosine has none; leave them out", "VECTOR_SIZE"
            )
        biases = parse_tensor(entry.biases, f"{field}.biases", (count,), VECTOR)
    limits = parse_tensor(entry.thresholds, f"{field}.thresholds", (count,), VECTOR) if entry.HasField("thresholds") else None
    return Directions(vectors, biases, limits, entry.cosine)


def _site_size(model: LoadedModel, site: Site, layer: int) -> int:
    """Returns the length of a site's vectors. Raises Unsupported for a site that the model does not show."""
    encoder, shape = model.encoder, model.encoder.shape
    why: str | None = "load another model"
    if site is Site.STATE:
        require_states(model)
        return shape.hidden_size
    if isinstance(encoder, ChangesSites):
        if site is Site.HEAD_OUTPUT:
            return encoder.head_size * shape.heads
        size, why = encoder.site_size(site), encoder.site_refusal(site, layer)
        if size is not None and why is None:
            return size
    raise Unsupported(f"{model.name} does not show its {site.value}: {why or 'load it with runtime torch'}", "SITE_UNSUPPORTED")
