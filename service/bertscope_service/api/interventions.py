"""Interventions on heads in a request, and the texts for their mean contexts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from bertscope.v1 import common_pb2

from bertscope_service.analyses.interventions import Interventions, Mode
from bertscope_service.analyses.texts import read_inputs
from bertscope_service.api.checks import check_number, check_numbers
from bertscope_service.api.enums import members
from bertscope_service.api.requirements import require_observable
from bertscope_service.encoders.base import Shape
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.errors import InvalidArgument
from bertscope_service.models.loaded import LoadedModel

MODES = members(Mode, common_pb2.HeadIntervention.Mode, "MODE_")


def read_interventions(interventions: Sequence[common_pb2.HeadIntervention], model: LoadedModel) -> Interventions:
    """Converts a request's interventions. Raises InvalidArgument, and Unsupported for a model whose heads can't be changed."""
    require_observable(model, asked=bool(interventions))
    return parse_interventions(interventions, model.encoder.shape, model.name)


def parse_interventions(interventions: Sequence[common_pb2.HeadIntervention], shape: Shape, model: str) -> Interventions:
    """Returns the contribution of each head. Each head may be named once."""
    parsed = Interventions.none(shape.layers, shape.heads)
    if not interventions:
        return parsed
    if len(interventions) > shape.layers * shape.heads:
        total = shape.layers * shape.heads
        message = f"interventions has {len(interventions)} entries and {model} {total} heads; name each head once"
        raise InvalidArgument("interventions", message, "TOO_MANY_INTERVENTIONS")
    changed = np.zeros((shape.layers, shape.heads), dtype=bool)
    for index, intervention in enumerate(interventions):
        field, layer = f"interventions[{index}]", intervention.layer
        check_number(layer, f"{field}.layer", "layer", shape.layers, model)
        heads = check_numbers(intervention.heads, f"{field}.heads", "head", shape.heads, model)
        mode, scale = parse_change(intervention.mode, intervention.scale if intervention.HasField("scale") else None, field)
        if changed[layer, list(heads)].any():
            twice = next(head for head in heads if changed[layer, head])
            message = f"{field} changes head {twice} of layer {layer} a second time; name each head once"
            raise InvalidArgument(field, message, "DUPLICATE_INTERVENTION")
        changed[layer, list(heads)] = True
        parsed = parsed.change(((layer, heads),), mode, scale)
    return parsed


def parse_change(mode: int, scale: float | None, path: str = "") -> tuple[Mode, float]:
    """Returns a mode and its factor, 1 for modes without one. `path` is the path of the message that holds them."""
    prefix = f"{path}." if path else ""
    chosen, field = MODES[mode], f"{prefix}scale"
    if chosen is not Mode.SCALE:
        if scale is not None:
            raise InvalidArgument(field, f"{field} is only for MODE_SCALE; leave it out", "SCALE_UNUSED")
        return chosen, 1.0
    if scale is None:
        raise InvalidArgument(field, f"{field} is missing; MODE_SCALE needs a factor", "SCALE_MISSING")
    return Mode.SCALE, scale


def check_reference_texts(texts: Sequence[str], *, needed: bool) -> None:
    """Checks that reference texts are given if, and only if, they are `needed`, for MODE_MEAN. Raises InvalidArgument."""
    if needed and not texts:
        message = (
            "reference_texts is empty and MODE_MEAN takes the heads' means over them; give texts like those of the request"
        )
        raise InvalidArgument("reference_texts", message, "REFERENCE_TEXTS_MISSING")
    if texts and not needed:
        message = "reference_texts is only for MODE_MEAN; leave it out"
        raise InvalidArgument("reference_texts", message, "REFERENCE_TEXTS_UNUSED")


def read_references(texts: Sequence[str], model: LoadedModel) -> list[TokenSequence]:
    """Tokenizes reference texts. Raises InvalidArgument for one that is too long for the model."""
    inputs = [(text, None) for text in texts]
    return [text.sequence for text in read_inputs(model.tokenizer, inputs, "reference_texts", truncate=None)]
