"""Checks that steps, each of which was checked by itself (see api/compression), fit each other and a model, as far as that can
be checked before any work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bertscope_service.checkpoints.steps import (
    Criterion,
    EliminateTokens,
    Half,
    Heads,
    Int8,
    KeepLayers,
    OnnxExport,
    PruneMagnitude,
    ReduceVocabulary,
    RemoveFeedForward,
    RemoveHeads,
    Step,
    WeightOnly,
)
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.compression.heads import least_important
from bertscope_service.compression.importance import masked_lm_objective
from bertscope_service.compression.vocabulary import check_vocabulary
from bertscope_service.encoders.base import FLOAT32, Capabilities, Shape
from bertscope_service.encoders.torch.architectures import ARCHITECTURES
from bertscope_service.encoders.torch.pruning import remaining
from bertscope_service.errors import InvalidArgument, Unsupported

LAST = ("int8", "weight_only", "onnx")
"""Steps whose result can't be compressed further."""
ONLY_TORCH = (Int8, WeightOnly, Half, EliminateTokens)
"""Steps whose result has no graphs unless it is exported at once."""
BLOCK_SIZES = (16, 32, 64, 128)
USUAL_BLOCK_SIZE = 32
ONNX_BITS = (4, 8)


@dataclass(frozen=True, slots=True)
class Subject:
    """The model to compress. name: its name, for errors. device: "cpu" or "cuda:0".

    has_mask: its tokenizer has a mask token. checkpoint: it was read from a transformers checkpoint. steps: names of the
    earlier steps.
    """

    name: str
    shape: Shape
    capabilities: Capabilities
    device: str
    has_mask: bool
    checkpoint: bool = True
    steps: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """Checked steps, in the order given, with every default spelled out.

    runtime, precision: those of the result, None for the original's, unless graphs have no such precision.
    """

    steps: tuple[Step, ...]
    runtime: str | None
    precision: str | None

    def precision_after(self, own: str) -> str:
        """Returns the precision of the result of a model whose precision is `own`."""
        graphs = self.runtime == "onnx" and own not in FLOAT32
        return self.precision or ("fp32" if graphs else own)


def plan(steps: Sequence[Step], subject: Subject) -> Plan:
    """Checks steps, each kind at most once, against a model.

    Raises InvalidArgument, naming the field of CompressModelRequest, and Unsupported.
    """
    _check_subject(subject)
    _check_formats(steps, subject)
    onnx = any(isinstance(step, OnnxExport) for step in steps)
    left = tuple(range(subject.shape.layers))
    planned: list[Step] = []
    for index, step in enumerate(steps):
        field = f"steps[{index}].{step.name}"
        match step:
            case KeepLayers():
                _check_layers(step, field, len(left), subject)
                left = tuple(left[layer] for layer in step.kept)
            case RemoveHeads():
                _check_heads(step, field, len(left), subject)
            case RemoveFeedForward():
                _check_network(subject)
                _check_share(step.share, f"{field}.share")
                if step.criterion is Criterion.IMPORTANCE:
                    _check_masked_lm(subject)
            case PruneMagnitude():
                _check_share(step.share, f"{field}.share")
            case EliminateTokens():
                _check_tokens(step, field, len(left))
            case WeightOnly():
                step = _weight_only(step, field, onnx=onnx)
        planned.append(step)
    runtime = "onnx" if onnx else "torch" if any(isinstance(step, ONLY_TORCH) for step in steps) else None
    half = next((step.precision for step in steps if isinstance(step, Half)), None)
    quantised = any(isinstance(step, (Int8, WeightOnly)) for step in steps)
    return Plan(tuple(planned), runtime, half or ("fp32" if quantised else None))


def check_texts(steps: Sequence[Step], tokenizer: TextTokenizer) -> None:
    """Checks steps against a model's tokenizer, which takes seconds with many texts.

    Texts for importance must have words to mask; the kind of vocabulary must be reducible. Raises InvalidArgument, naming the
    text's field, and Unsupported.
    """
    for index, step in enumerate(steps):
        field = f"steps[{index}].{step.name}.texts"
        if isinstance(step, ReduceVocabulary):
            check_vocabulary(tokenizer)
        if isinstance(step, RemoveFeedForward) and step.criterion is Criterion.IMPORTANCE:
            masked_lm_objective(step.texts, tokenizer, field)


def with_heads(steps: Sequence[Step], importance: NDArray[np.float64], subject: Subject) -> tuple[Step, ...]:
    """Spells a share of heads out, by the importance [layers, heads] in the model before all steps."""
    layers, found = tuple(range(subject.shape.layers)), list[Step]()
    gone: Heads = subject.shape.pruned
    for step in steps:
        if isinstance(step, KeepLayers):
            layers = tuple(layers[layer] for layer in step.kept)
            gone = {new: gone[old] for new, old in enumerate(step.kept) if old in gone}
        if isinstance(step, RemoveHeads) and step.share is not None:
            step = RemoveHeads(least_important(importance[list(layers)], gone, step.share))
        found.append(step)
    return tuple(found)


def _check_subject(subject: Subject) -> None:
    """Checks that the original can be changed."""
    done = [name for name in subject.steps if name in LAST]
    if done or not subject.checkpoint:
        why = f"it was made by the step {done[-1]!r}" if done else "it was not read from a safetensors checkpoint"
        message = f"{subject.name} can't be compressed further: {why}; start from the original and name all steps at once"
        raise Unsupported(message, "ALREADY_COMPRESSED", model=subject.name)


def _check_formats(steps: Sequence[Step], subject: Subject) -> None:
    """Checks that there is at most one number format, and one that the other steps go with."""
    formats = [(index, step) for index, step in enumerate(steps) if isinstance(step, (Int8, WeightOnly, Half))]
    if len(formats) > 1:
        (_, first), (index, second) = formats[:2]
        message = f"{second.name} and {first.name} are both number formats; use one of int8, weight_only and half"
        raise InvalidArgument(f"steps[{index}]", message, "FORMATS_EXCLUDE_EACH_OTHER")
    onnx = any(isinstance(step, OnnxExport) for step in steps)
    for _, step in formats:
        if onnx and isinstance(step, Half):
            message = "ONNX graphs are written in float32 or quantised: leave onnx out to use 16 bits, or half out to use onnx"
            raise Unsupported(message, "HALF_ONNX_UNSUPPORTED", device=subject.device)
        if onnx and isinstance(step, Int8) and subject.device.startswith("cuda"):
            message = (
                f"8-bit ONNX graphs run on a CPU, not on {subject.device}, where {subject.name} runs; "
                "use half on a GPU (fp16 or bf16), or load the model on the CPU and compress it there"
            )
            raise Unsupported(message, "PRECISION_UNSUPPORTED", precision="int8", device=subject.device)
    drops = "tokens" in subject.steps or any(isinstance(step, EliminateTokens) for step in steps)
    why = ARCHITECTURES[subject.shape.architecture].unexportable({}) if onnx else ""
    if why:
        message = f"{subject.name} can't be exported: {why}; leave onnx out"
        raise Unsupported(message, "EXPORT_UNSUPPORTED", architecture=subject.shape.architecture)
    capabilities = subject.capabilities
    if drops and (capabilities.token_classification or capabilities.question_answering):
        message = f"tokens would lose the head of {subject.name}, which reads every token; leave tokens out"
        raise Unsupported(message, "TOKENS_UNSUPPORTED", model=subject.name)
    if onnx and drops:
        message = "tokens drops tokens while the model runs, which exported graphs can't; leave onnx or tokens out"
        raise Unsupported(message, "TOKENS_ONNX_UNSUPPORTED", model=subject.name)


def _check_layers(step: KeepLayers, field: str, layers: int, subject: Subject) -> None:
    architecture = subject.shape.architecture
    why = ARCHITECTURES[architecture].fixed_layers
    if why is not None:
        message = f"layers of {subject.name} can't be removed: {why}; use another architecture"
        raise Unsupported(message, "LAYERS_UNSUPPORTED", architecture=architecture)
    field = f"{field}.layers"
    for index, layer in enumerate(step.kept):
        _check_layer(layer, f"{field}[{index}]", layers, subject)
        if index and layer <= step.kept[index - 1]:
            message = f"{field} is not ascending at {layer}; list each layer once, the lowest first"
            raise InvalidArgument(f"{field}[{index}]", message, "LAYERS_NOT_ASCENDING")
    if ARCHITECTURES[architecture].first_layer_differs and step.kept[0] != 0:
        message = f"layer 0 of {subject.name} must stay: it alone has no norm before its attention; add 0 to {field}"
        raise Unsupported(message, "FIRST_LAYER_NEEDED", architecture=architecture)


def _check_layer(layer: int, field: str, layers: int, subject: Subject) -> None:
    if not 0 <= layer < layers:
        message = f"layer {layer} is out of range: {subject.name} has layers 0 to {layers - 1} there"
        raise InvalidArgument(field, message, "LAYER_OUT_OF_RANGE", model=subject.name)


def _check_network(subject: Subject) -> None:
    why = ARCHITECTURES[subject.shape.architecture].fixed_network
    if why is not None:
        message = f"feed-forward units of {subject.name} can't be removed: {why}; use another step"
        raise Unsupported(message, "FEED_FORWARD_UNSUPPORTED", architecture=subject.shape.architecture)


def _check_heads(step: RemoveHeads, field: str, layers: int, subject: Subject) -> None:
    if not subject.capabilities.prunable:
        reason = ARCHITECTURES[subject.shape.architecture].unprunable
        if reason is not None:
            why = f"{reason}; use interventions instead"
        else:
            why = "it drops tokens; start from the original and name all steps at once"
        message = f"heads of {subject.name} can't be removed: {why}"
        raise Unsupported(message, "PRUNING_UNSUPPORTED", model=subject.name)
    if step.share is None:
        for index, layer in enumerate(step.heads):
            _check_layer(layer, f"{field}.heads[{index}].layer", layers, subject)
        return
    _check_share(step.share, f"{field}.share")
    _check_masked_lm(subject)
    if not subject.capabilities.differentiable:
        message = f"{subject.name} has no gradients to rank heads by; name the heads, or load it with the torch runtime"
        raise Unsupported(message, "NO_GRADIENTS", model=subject.name)
    if sum(len(remaining(subject.shape.heads, subject.shape.pruned.get(layer, ()))) for layer in range(layers)) < 2:
        raise InvalidArgument(f"{field}.share", f"{subject.name} has no two heads left; leave the step out", "NO_HEADS")


def _check_masked_lm(subject: Subject) -> None:
    """Checks that the model has the masked-LM loss, which importance needs."""
    if not subject.capabilities.masked_lm:
        message = f"{subject.name} has no masked-LM head, whose loss defines importance; choose by name or magnitude"
        raise Unsupported(message, "NO_MASKED_LM_HEAD", model=subject.name)
    if not subject.has_mask:
        message = f"{subject.name} has no mask token, so nothing can be ranked by importance; choose by name or magnitude"
        raise Unsupported(message, "NO_MASK_TOKEN", model=subject.name)


def _check_share(share: float, field: str) -> None:
    # In this form the condition refuses NaN too.
    if not 0 < share < 1:
        raise InvalidArgument(field, f"{field} is {share}; use a number over 0 and below 1", "SHARE_OUT_OF_RANGE")


def _check_tokens(step: EliminateTokens, field: str, layers: int) -> None:
    field = f"{field}.kept_shares"
    if len(step.kept_shares) != layers:
        message = f"{field} has {len(step.kept_shares)} entries and the model {layers} layers then; give one for each"
        raise InvalidArgument(field, message, "KEPT_SHARES_MISCOUNTED")
    for index, share in enumerate(step.kept_shares):
        if not 0 < share <= 1:
            message = f"{field}[{index}] is {share}; use a number over 0, at most 1"
            raise InvalidArgument(f"{field}[{index}]", message, "SHARE_OUT_OF_RANGE")
        if index and share > step.kept_shares[index - 1]:
            message = f"{field}[{index}] is {share}, more than the layer before keeps; give shares that don't increase"
            raise InvalidArgument(f"{field}[{index}]", message, "KEPT_SHARES_INCREASE")


def _weight_only(step: WeightOnly, field: str, *, onnx: bool) -> WeightOnly:
    """Returns the step with its block size spelled out."""
    bits = ONNX_BITS if onnx else range(2, 9)
    if step.bits not in bits:
        known = "4 or 8 with onnx" if onnx else "2 to 8"
        raise InvalidArgument(f"{field}.bits", f"{field}.bits is {step.bits}; use {known}", "BITS_OUT_OF_RANGE")
    if not onnx:
        if step.block_size:
            message = f"{field}.block_size is for onnx alone; leave it out"
            raise InvalidArgument(f"{field}.block_size", message, "BLOCK_SIZE_UNUSED")
        return step
    if step.block_size not in (0, *BLOCK_SIZES):
        message = f"{field}.block_size is {step.block_size}; use {', '.join(map(str, BLOCK_SIZES))}"
        raise InvalidArgument(f"{field}.block_size", message, "BLOCK_SIZE_OUT_OF_RANGE")
    return replace(step, block_size=step.block_size or USUAL_BLOCK_SIZE)
