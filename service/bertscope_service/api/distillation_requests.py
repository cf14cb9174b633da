"""Reads DistillModel's request: what makes the student, its texts, and how it is trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bertscope.v1 import distillation_pb2 as pb2

from bertscope_service.analyses.objectives.labelled import find_label
from bertscope_service.api.checks import check_folder, check_model_id, read_text
from bertscope_service.api.compression import parse_steps
from bertscope_service.api.enums import members
from bertscope_service.api.limits import MAX_PROBE_TEXTS, RequestLimits
from bertscope_service.api.training import check_total
from bertscope_service.checkpoints.steps import Int8, PruneMagnitude, Step, Untrain
from bertscope_service.compression.plan import check_texts, plan
from bertscope_service.distillation.plan import imitated, spell_layers
from bertscope_service.distillation.rows import PARTS, TRAIN, DistillationTexts, GivenText
from bertscope_service.distillation.saved import SavedTraining
from bertscope_service.distillation.settings import DistillationSettings, DistillationWeights, Predicted, StateLoss
from bertscope_service.errors import InvalidArgument
from bertscope_service.models.loaded import LoadedModel

Request = pb2.DistillModelRequest
EPOCHS, BATCH_TOKENS, EVALUATIONS = 3, 512, 5
RATE, WARM_UP, DECAY, MASK_RATE = 5e-4, 0.05, 0.01, 0.15
SOFT, TEMPERATURE, HARD, STATES, ATTENTION = 1.0, 2.0, 0.0, 30.0, 0.0
STATE_LOSSES = {0: StateLoss.COSINE} | members(StateLoss, pb2.DistillationObjective.StateLoss, "STATE_LOSS_")


@dataclass(frozen=True, slots=True)
class PlannedDistillation:
    """A checked request. steps: as CompressModel would do them; precision: that of the new model."""

    name: str
    folder: Path
    steps: Sequence[Step]
    precision: str
    runtime: str
    texts: DistillationTexts
    settings: DistillationSettings
    saved: SavedTraining

    @property
    def longest(self) -> int:
        """The tokens of the longest text."""
        return max(len(one.sequence) for part in self.texts.parts.values() for one in part.examples)


def plan_distillation(request: Request, model: LoadedModel, limits: RequestLimits) -> PlannedDistillation:
    """Plans the training. Raises InvalidArgument, and Unsupported for a model or a step that can't be trained."""
    steps = parse_steps(request.steps, model.encoder.shape, model.name)
    planned = plan(steps, model.subject)
    check_texts(planned.steps, model.tokenizer)
    layers = spell_layers(planned.steps, model, attention=request.objective.attention > 0)
    folder = check_folder(request.folder)
    if folder is None:
        raise ValueError("the request has no folder")
    texts = DistillationTexts.read(
        read_texts(request, model),
        model.tokenizer,
        mask_rate=request.mask_rate if request.HasField("mask_rate") else MASK_RATE,
        predicted=Predicted.by(model.encoder.capabilities) or Predicted.MASKED,  # spell_layers refused models with none
        labels=len(model.encoder.shape.head_labels),
        truncate=request.truncate,
        seed=request.seed,
    )
    settings = DistillationSettings(
        weights=read_objective(request.objective, layers, texts, model),
        epochs=request.epochs or EPOCHS,
        batch_tokens=request.batch_tokens or BATCH_TOKENS,
        learning_rate=request.learning_rate if request.HasField("learning_rate") else RATE,
        warm_up=request.warm_up if request.HasField("warm_up") else WARM_UP,
        weight_decay=request.weight_decay if request.HasField("weight_decay") else DECAY,
        mask_rate=texts.mask_rate,
        evaluations=request.evaluations or EVALUATIONS,
        seed=request.seed,
        embeddings=request.train_embeddings or any(isinstance(step, Untrain) for step in steps),
        integers=any(isinstance(step, Int8) for step in steps),
        sparse=any(isinstance(step, PruneMagnitude) for step in steps),
    )
    # What it is called changes nothing in what comes out.
    same = Request()
    same.CopyFrom(request)
    same.ClearField("model_id")
    same.ClearField("model")
    about = {
        "request": same.SerializeToString(deterministic=True).hex(),
        "weights": model.weights_digest,
        "device": model.encoder.device.type,
        "versions": model.library_versions,
    }
    return PlannedDistillation(
        name=f"models/{check_model_id(request.model_id)}",
        folder=folder,
        steps=planned.steps,
        precision=planned.precision_after(model.encoder.precision),
        runtime=planned.runtime or model.spec.runtime,
        texts=texts,
        settings=settings,
        saved=SavedTraining.beside(folder, about),
    )


def read_texts(request: Request, model: LoadedModel) -> dict[str, list[GivenText]]:
    """Returns the texts of each part, with the numbers of their labels."""
    parts = {name: getattr(request, name) for name in PARTS}
    check_total(parts, "texts", sum(map(len, parts.values())), MAX_PROBE_TEXTS)
    labels = model.encoder.shape.labels
    found: dict[str, list[GivenText]] = {}
    for name, part in parts.items():
        found[name] = []
        for index, text in enumerate(part):
            field, label, kind = f"{name}[{index}]", -1, text.WhichOneof("gold")
            if kind and not model.encoder.capabilities.classification:
                message = f"{field}.{kind} is for a classifier of one label, and {model.name} is none; leave it out"
                raise InvalidArgument(f"{field}.{kind}", message, "UNKNOWN_LABEL", model=model.name)
            if kind:
                label = find_label(getattr(text, kind), labels, field, model.name)
            found[name].append(GivenText(f"{field}.input", read_text(text.input), label))
    return found


def read_objective(
    given: pb2.DistillationObjective, layers: tuple[int, ...], texts: DistillationTexts, model: LoadedModel
) -> DistillationWeights:
    """Returns the weights of the parts of the loss. `layers`: those of the teacher that are kept. Raises InvalidArgument if the
    student would learn nothing."""

    def weight(name: str, usual: float) -> float:
        return float(getattr(given, name)) if given.HasField(name) else usual  # type: ignore[arg-type]

    weights = DistillationWeights(
        weight("soft", SOFT),
        weight("temperature", TEMPERATURE),
        weight("hard", HARD),
        weight("states", STATES),
        STATE_LOSSES[given.state_loss],
        weight("attention", ATTENTION),
        imitated(given.teacher_layers, layers, model),
    )
    answers = texts.predicted is Predicted.MASKED or texts.parts[TRAIN].labelled
    if not (weights.soft or weights.states or weights.attention or (weights.hard and answers)):
        why = "no text of train has a label" if weights.hard else "all its weights are 0"
        message = f"the student would learn nothing: {why}; give a part of objective a weight over 0"
        raise InvalidArgument("objective", message, "NOTHING_TO_LEARN")
    return weights
