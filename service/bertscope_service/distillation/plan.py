"""Checks what a student is to be made of and what it imitates, before any work."""

from __future__ import annotations

from collections.abc import Sequence

from bertscope_service.checkpoints.steps import EliminateTokens, KeepLayers, ReduceVocabulary, RemoveHeads, Step
from bertscope_service.distillation.settings import Predicted
from bertscope_service.errors import InvalidArgument, Unsupported
from bertscope_service.models.loaded import LoadedModel

UNTRAINABLE = {
    EliminateTokens: "a model that drops tokens has no gradients; distill first, and drop them later with CompressModel",
    ReduceVocabulary: "the student would not predict its teacher's vocabulary; distill first, and reduce it with CompressModel",
}


def spell_layers(steps: Sequence[Step], model: LoadedModel, *, attention: bool) -> tuple[int, ...]:
    """Returns the layers of the teacher that the student keeps. `attention`: whether maps are compared.

    Raises Unsupported for a model or a step that can't be trained, InvalidArgument for a share of heads.
    """
    capabilities = model.encoder.capabilities
    head = Predicted.by(capabilities)
    if head is None or (head is Predicted.MASKED and model.tokenizer.mask_id is None):
        message = (
            f"{model.name} neither fills masks nor gives texts or their tokens labels, which a student learns; use another"
        )
        raise Unsupported(message, "DISTILLATION_UNSUPPORTED", model=model.name)
    layers = tuple(range(model.encoder.shape.layers))
    for index, step in enumerate(steps):
        why = UNTRAINABLE.get(type(step))
        if why is not None:
            raise Unsupported(f"steps[{index}].{step.name} can't be trained: {why}", "DISTILLATION_UNSUPPORTED", step=step.name)
        if isinstance(step, RemoveHeads) and step.share is not None:
            field = f"steps[{index}].{step.name}.share"
            message = f"{field} is not for distillation; name the heads, for example those that RankHeads finds"
            raise InvalidArgument(field, message, "HEADS_WITH_SHARE")
        if isinstance(step, RemoveHeads) and attention:
            message = "attention maps are compared head by head, and steps remove heads; leave attention out"
            raise Unsupported(message, "DISTILLATION_UNSUPPORTED", step=step.name)
        if isinstance(step, KeepLayers):
            layers = step.kept
    return layers


def imitated(asked: Sequence[int], kept: Sequence[int], model: LoadedModel) -> tuple[int, ...]:
    """Returns the teacher's layer that each of the student's imitates: by default the last one before the next that was kept.

    Raises InvalidArgument for layers that are not one for each, ascending.
    """
    layers = model.encoder.shape.layers
    if not asked:
        return (*(after - 1 for after in kept[1:]), layers - 1)
    field = "objective.teacher_layers"
    for index, layer in enumerate(asked):
        if layer >= layers:
            message = f"layer {layer} is out of range: {model.name} has layers 0 to {layers - 1}"
            raise InvalidArgument(f"{field}[{index}]", message, "LAYER_OUT_OF_RANGE", model=model.name)
    if len(asked) != len(kept) or list(asked) != sorted(asked):
        message = f"{field} must name one layer of the teacher for each of the student's {len(kept)}, ascending"
        raise InvalidArgument(field, message, "LAYERS_MISMATCHED")
    return tuple(asked)
