"""Checks and renderings that several services share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from weakref import WeakKeyDictionary

import numpy as np
from bertscope.v1 import common_pb2

from bertscope_service.encoders.base import Gates, Shape
from bertscope_service.errors import InvalidArgument
from bertscope_service.messages.limits import RequestLimits
from bertscope_service.registry import LoadedModel

Mode = common_pb2.HeadIntervention
PRECISIONS = {
    "fp32": common_pb2.PRECISION_FLOAT32,
    "bf16": common_pb2.PRECISION_BFLOAT16,
    "fp16": common_pb2.PRECISION_FLOAT16,
}
RUNTIMES = {"torch": common_pb2.RUNTIME_TORCH}
MAX_SCALE = 1000.0
_PROVENANCES: WeakKeyDictionary[LoadedModel, common_pb2.Provenance] = WeakKeyDictionary()


def check_texts(texts: Sequence[object], field: str, limits: RequestLimits) -> None:
    """A request has 1 to `limits.texts` texts."""
    if not texts:
        raise InvalidArgument(field, f"{field} is empty; give at least one text", "NO_TEXT")
    if len(texts) > limits.texts:
        message = f"{field} has {len(texts)} entries and this server takes {limits.texts}; send them in parts"
        raise InvalidArgument(field, message, "TOO_MANY_TEXTS", limit=limits.texts)


def check_text(text: str, field: str, limits: RequestLimits) -> str:
    """A text has a character that is not blank, and not too many of them."""
    if len(text) > limits.text_characters:
        message = f"{field} has {len(text)} characters and this server takes {limits.text_characters}; shorten it"
        raise InvalidArgument(field, message, "TEXT_TOO_LARGE", limit=limits.text_characters)
    if not text or text.isspace():
        raise InvalidArgument(field, f"{field} is empty; leave it out or write some text", "EMPTY_TEXT")
    return text


def check_numbers(numbers: Sequence[int], field: str, what: str, count: int, model: str) -> tuple[int, ...]:
    """Distinct layer or head numbers, each 0 to count - 1; none means all."""
    seen: set[int] = set()
    for index, number in enumerate(numbers):
        check_number(number, f"{field}[{index}]", what, count, model)
        if number in seen:
            message = f"{what} {number} is listed twice in {field}; list each once"
            raise InvalidArgument(f"{field}[{index}]", message, "DUPLICATE")
        seen.add(number)
    return tuple(numbers) or tuple(range(count))


def check_number(number: int, field: str, what: str, count: int, model: str) -> None:
    """A layer or head number, 0 to count - 1."""
    if number >= count:
        message = f"{what} {number} is out of range: {model} has {what}s 0 to {count - 1}"
        raise InvalidArgument(field, message, f"{what.upper()}_OUT_OF_RANGE", model=model)


def parse_interventions(interventions: Sequence[common_pb2.HeadIntervention], shape: Shape, model: str) -> Gates | None:
    """Gates for every head, None if there are no interventions. Each head may be named once."""
    if not interventions:
        return None
    if len(interventions) > shape.layers * shape.heads:
        total = shape.layers * shape.heads
        message = f"interventions has {len(interventions)} entries and {model} {total} heads; name each head once"
        raise InvalidArgument("interventions", message, "TOO_MANY_INTERVENTIONS")
    keep = np.ones((shape.layers, shape.heads), dtype=np.float32)
    uniform = np.zeros_like(keep)
    changed = np.zeros_like(keep, dtype=bool)
    for index, intervention in enumerate(interventions):
        field, layer = f"interventions[{index}]", intervention.layer
        check_number(layer, f"{field}.layer", "layer", shape.layers, model)
        heads = list(check_numbers(intervention.heads, f"{field}.heads", "head", shape.heads, model))
        factor = _factor(intervention, field)
        if changed[layer, heads].any():
            twice = next(head for head in heads if changed[layer, head])
            message = f"{field} changes head {twice} of layer {layer} a second time; name each head once"
            raise InvalidArgument(field, message, "DUPLICATE_INTERVENTION")
        changed[layer, heads] = True
        keep[layer, heads] = factor
        uniform[layer, heads] = intervention.mode == Mode.MODE_UNIFORM
    return Gates(keep, uniform)


def _factor(intervention: common_pb2.HeadIntervention, field: str) -> float:
    """What remains of a head's own context."""
    mode = intervention.mode
    if mode not in (Mode.MODE_ZERO, Mode.MODE_UNIFORM, Mode.MODE_SCALE):
        message = f"{field}.mode is {mode}; set MODE_ZERO, MODE_UNIFORM or MODE_SCALE"
        raise InvalidArgument(f"{field}.mode", message, "UNKNOWN_MODE")
    if mode != Mode.MODE_SCALE:
        if intervention.HasField("scale"):
            message = f"{field}.scale is only for MODE_SCALE; leave it out"
            raise InvalidArgument(f"{field}.scale", message, "SCALE_UNUSED")
        return 0.0
    if not intervention.HasField("scale"):
        raise InvalidArgument(f"{field}.scale", f"{field}.scale is missing; MODE_SCALE needs a factor", "SCALE_MISSING")
    if not math.isfinite(intervention.scale) or abs(intervention.scale) > MAX_SCALE:
        message = f"{field}.scale is {intervention.scale}; use a number from {-MAX_SCALE:.0f} to {MAX_SCALE:.0f}"
        raise InvalidArgument(f"{field}.scale", message, "SCALE_OUT_OF_RANGE")
    return intervention.scale


def render_provenance(model: LoadedModel) -> common_pb2.Provenance:
    """Where an answer comes from; written down once for each model. The caller must not change it."""
    found = _PROVENANCES.get(model)
    if found is None:
        found = _PROVENANCES[model] = _render_provenance(model)
    return found


def _render_provenance(model: LoadedModel) -> common_pb2.Provenance:
    return common_pb2.Provenance(
        model=model.name,
        weights_digest=model.weights_digest,
        runtime=RUNTIMES[model.encoder.runtime],
        device=str(model.encoder.device),
        precision=PRECISIONS[model.encoder.precision],
        library_versions=model.library_versions,
        numbering=common_pb2.NUMBERING_ZERO_BASED,
    )
