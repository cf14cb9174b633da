"""Checks and renderings that several services share."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from weakref import WeakKeyDictionary

import numpy as np
from bertscope.v1 import common_pb2

from bertscope_service.analyses.ablation import HeadSet, Mode
from bertscope_service.analyses.interventions import Interventions
from bertscope_service.encoders.base import Shape, TokenSequence
from bertscope_service.errors import InvalidArgument
from bertscope_service.loaded import LoadedModel
from bertscope_service.messages.limits import RequestLimits

MODES: dict[int, Mode] = {
    common_pb2.HeadIntervention.MODE_ZERO: Mode.ZERO,
    common_pb2.HeadIntervention.MODE_UNIFORM: Mode.UNIFORM,
    common_pb2.HeadIntervention.MODE_MEAN: Mode.MEAN,
    common_pb2.HeadIntervention.MODE_SCALE: Mode.SCALE,
}
PRECISIONS = {
    "fp32": common_pb2.PRECISION_FLOAT32,
    "bf16": common_pb2.PRECISION_BFLOAT16,
    "fp16": common_pb2.PRECISION_FLOAT16,
    "int8": common_pb2.PRECISION_INT8,
    "weight_only": common_pb2.PRECISION_WEIGHT_ONLY,
}
ASKABLE_PRECISIONS = ("fp32", "bf16", "fp16")
"""Those that any model can be loaded in; weights of few bits choose their own."""
RUNTIMES = {"torch": common_pb2.RUNTIME_TORCH, "onnx": common_pb2.RUNTIME_ONNX}
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


def check_tokens(sequences: Iterable[TokenSequence], field: str, limits: RequestLimits) -> None:
    """All rows of an interactive request together have at most `limits.tokens` tokens."""
    tokens = sum(map(len, sequences))
    if tokens > limits.tokens:
        message = f"{field} make {tokens} tokens of work and this server takes {limits.tokens} in a request; send them in parts"
        raise InvalidArgument(field, message, "TOO_MANY_TOKENS", limit=limits.tokens)


def check_input(entry: common_pb2.TextInput, field: str, limits: RequestLimits) -> tuple[str, str | None]:
    """A text, and the second one of a pair."""
    text = check_text(entry.text, f"{field}.text", limits)
    return text, check_text(entry.text_pair, f"{field}.text_pair", limits) if entry.HasField("text_pair") else None


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


def parse_layer_heads(entries: Sequence[common_pb2.LayerHeads], field: str, shape: Shape, model: str) -> HeadSet:
    """Heads by layer, all of them spelled out, both ascending."""
    heads: dict[int, tuple[int, ...]] = {}
    for index, entry in enumerate(entries):
        check_number(entry.layer, f"{field}[{index}].layer", "layer", shape.layers, model)
        if entry.layer in heads:
            message = f"layer {entry.layer} is listed twice in {field}; list each once"
            raise InvalidArgument(f"{field}[{index}].layer", message, "DUPLICATE")
        numbers = check_numbers(entry.heads, f"{field}[{index}].heads", "head", shape.heads, model)
        heads[entry.layer] = tuple(sorted(numbers))
    return tuple(sorted(heads.items()))


def parse_interventions(interventions: Sequence[common_pb2.HeadIntervention], shape: Shape, model: str) -> Interventions:
    """What each head contributes. Each head may be named once."""
    parsed = Interventions.none(shape.layers, shape.heads)
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
    """A mode and its factor, 1 for modes without one. `path` leads to the message that holds them."""
    prefix = f"{path}." if path else ""
    if mode not in MODES:
        message = f"{prefix}mode is {mode}; set MODE_ZERO, MODE_UNIFORM, MODE_MEAN or MODE_SCALE"
        raise InvalidArgument(f"{prefix}mode", message, "UNKNOWN_MODE")
    field = f"{prefix}scale"
    if MODES[mode] is not Mode.SCALE:
        if scale is not None:
            raise InvalidArgument(field, f"{field} is only for MODE_SCALE; leave it out", "SCALE_UNUSED")
        return MODES[mode], 1.0
    if scale is None:
        raise InvalidArgument(field, f"{field} is missing; MODE_SCALE needs a factor", "SCALE_MISSING")
    if not math.isfinite(scale) or abs(scale) > MAX_SCALE:
        message = f"{field} is {scale}; use a number from {-MAX_SCALE:.0f} to {MAX_SCALE:.0f}"
        raise InvalidArgument(field, message, "SCALE_OUT_OF_RANGE")
    return Mode.SCALE, scale


def parse_reference_texts(texts: Sequence[str], interventions: Interventions, limits: RequestLimits) -> tuple[str, ...]:
    """The texts that mean ablation takes its means over; there if, and only if, an intervention needs them."""
    needed = bool(interventions.mean.any())
    check_reference_texts(texts, needed=needed)
    if needed:
        check_texts(texts, "reference_texts", limits)
    return tuple(check_text(text, f"reference_texts[{index}]", limits) for index, text in enumerate(texts))


def check_reference_texts(texts: Sequence[str], *, needed: bool) -> None:
    """Reference texts are there if, and only if, MODE_MEAN is."""
    if needed and not texts:
        message = (
            "reference_texts is empty and MODE_MEAN takes the heads' means over them; give texts like those of the request"
        )
        raise InvalidArgument("reference_texts", message, "REFERENCE_TEXTS_MISSING")
    if texts and not needed:
        message = "reference_texts is only for MODE_MEAN; leave it out"
        raise InvalidArgument("reference_texts", message, "REFERENCE_TEXTS_UNUSED")


def parse_runtime(runtime: int, usual: str) -> str:
    """ "torch", "onnx" or "auto"; `usual` if a request leaves it open. Raises InvalidArgument."""
    runtimes: dict[int, str] = {message: name for name, message in RUNTIMES.items()}
    runtimes |= {common_pb2.RUNTIME_AUTO: "auto", common_pb2.RUNTIME_UNSPECIFIED: usual}
    if runtime not in runtimes:
        message = f"runtime is {runtime}; set RUNTIME_TORCH, RUNTIME_ONNX or RUNTIME_AUTO"
        raise InvalidArgument("runtime", message, "UNKNOWN_RUNTIME")
    return runtimes[runtime]


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
