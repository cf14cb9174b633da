"""Paths in requests of AblationService.SweepSites."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from bertscope.v1 import ablation_sites_pb2 as sites_pb2

from bertscope_service import cancellation
from bertscope_service.ablation.site_plan import Units
from bertscope_service.analyses.site_changes import PlannedChange
from bertscope_service.api.checks import check_numbers
from bertscope_service.api.model_sites import ModelSites
from bertscope_service.encoders.decomposition import decomposition_of
from bertscope_service.encoders.paths import FollowsPaths, Receiver, Sender
from bertscope_service.encoders.sites import Change, Site
from bertscope_service.errors import InvalidArgument, Unsupported

INPUTS = (Receiver.QUERY, Receiver.KEY, Receiver.VALUE)


def check_alone(request: sites_pb2.SweepSitesRequest) -> None:
    """Raises InvalidArgument for fields of a request that say nothing beside paths, or would change what they mean."""
    for field in ("scopes", "positions", "change", "interventions", "site_interventions"):
        value = getattr(request, field)
        if value if field != "change" else request.HasField("change"):
            message = f"{field} is for sites, and paths run at all positions of a model without other changes; leave one out"
            raise InvalidArgument(field, message, "CHANGE_UNUSABLE")


def read_paths(paths: sites_pb2.PathScope, sites: ModelSites) -> list[Units]:
    """Returns all paths from senders to receivers, in the order of receivers' layers.

    Raises InvalidArgument, and Unsupported for a model whose layers can't be taken apart.
    """
    model, shape = sites.model, sites.model.encoder.shape
    decomposition: object = decomposition_of(model.encoder)
    why: str | None = f"it runs in {model.encoder.runtime}; load it from safetensors with runtime torch"
    if isinstance(decomposition, FollowsPaths):
        why = decomposition.paths_refusal
    if why is not None:
        raise Unsupported(f"{model.name} can't follow paths: {why}", "SITE_UNSUPPORTED", model=model.name)
    senders = check_numbers(paths.sender_layers, "paths.sender_layers", "layer", shape.layers, model.name)
    receivers = check_numbers(paths.receiver_layers, "paths.receiver_layers", "layer", shape.layers + 1, model.name)
    found = list(_paths(senders, receivers, sites))
    if not found:
        message = "paths.receiver_layers has no layer that a sender reaches; name the sender's own, or later ones"
        raise InvalidArgument("paths.receiver_layers", message, "LAYER_OUT_OF_RANGE")
    return found


def _paths(sender_layers: Sequence[int], receiver_layers: Sequence[int], sites: ModelSites) -> Iterator[Units]:
    shape = sites.model.encoder.shape
    heads = {layer: [Sender(layer, head) for head in shape.heads_of(layer)] for layer in sorted(sender_layers)}
    senders = [sender for layer, of_layer in heads.items() for sender in (*of_layer, Sender(layer, None))]
    unit, size = sites.sizes(Site.HEAD_OUTPUT, "paths")
    for layer in sorted(receiver_layers):
        cancellation.check()
        before = [sender for sender in senders if sender.layer < layer]
        if layer == shape.layers:
            last = PlannedChange(Change(Site.STATE, layer), shape.hidden_size)
            yield from (Units(last, shape.hidden_size, sender=sender, receiver=Receiver.LOGITS) for sender in before)
            continue
        for receiver in INPUTS:
            for head in shape.heads_of(layer):
                read = PlannedChange(Change(Site.HEAD_OUTPUT, layer, None, np.array([head])), unit)
                yield from (Units(read, size, head, sender=sender, receiver=receiver) for sender in before)
        read = PlannedChange(Change(Site.FEED_FORWARD_OUTPUT, layer), shape.hidden_size)
        near = [*before, *heads.get(layer, ())]
        yield from (Units(read, shape.hidden_size, sender=sender, receiver=Receiver.FEED_FORWARD) for sender in near)
