"""Builds the request of DistillModel."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, SupportsIndex, TypeAlias, cast

from bertscope.questions.ablation.task_objectives import LabelledTexts
from bertscope.questions.compression.messages import step_messages
from bertscope.questions.compression.steps import Step
from bertscope.v1 import distillation_pb2
from bertscope.values import validation
from bertscope.values.choices import StateLoss
from bertscope.values.messages import Numbers, enum_value, text_input
from bertscope.values.models import Model, model_name
from bertscope.values.validation import TextOrPair

Texts: TypeAlias = TextOrPair | Iterable[TextOrPair]


def distill_model_request(
    model_id: str,
    texts: Texts | LabelledTexts,
    *,
    folder: str,
    steps: Step | Iterable[Step],
    model: str | Model | None,
    dev: Texts | LabelledTexts,
    test: Texts | LabelledTexts,
    state_loss: StateLoss | None,
    teacher_layers: Numbers | None,
    seed: SupportsIndex,
    truncate: bool,
    train_embeddings: bool,
    **more: Any,
) -> distillation_pb2.DistillModelRequest:
    """Returns the request of DistillModel."""

    def number(name: str) -> float | None:
        return None if more[name] is None else validation.finite_number(name, more[name])

    def count(name: str) -> int:
        return 0 if more[name] is None else validation.positive(name, more[name])

    numbers = {name: number(name) for name in ("learning_rate", "warm_up", "weight_decay", "mask_rate")}
    kinds = distillation_pb2.DistillationObjective.StateLoss
    return distillation_pb2.DistillModelRequest(
        model=model_name("model", model),
        model_id=validation.text("model_id", model_id).removeprefix("models/"),
        folder=validation.text("folder", folder),
        steps=step_messages(steps),
        train=_texts("texts", texts),
        dev=_texts("dev", dev),
        test=_texts("test", test),
        objective=distillation_pb2.DistillationObjective(
            **{name: number(name) for name in ("soft", "temperature", "hard", "states", "attention")},
            state_loss=enum_value("state_loss", state_loss, StateLoss, kinds),
            teacher_layers=validation.uint32s("teacher_layers", teacher_layers),
        ),
        epochs=count("epochs"),
        batch_tokens=count("batch_tokens"),
        evaluations=count("evaluations"),
        **cast("dict[str, Any]", numbers),
        seed=validation.uint64("seed", seed),
        truncate=validation.flag("truncate", truncate),
        train_embeddings=validation.flag("train_embeddings", train_embeddings),
    )


def _texts(name: str, given: Texts | LabelledTexts) -> list[distillation_pb2.DistillationText]:
    if isinstance(given, LabelledTexts):
        return [_labelled(text, label) for text, label in given.texts]
    return [distillation_pb2.DistillationText(input=text_input(text)) for text in validation.texts_or_pairs(name, given)]


def _labelled(text: TextOrPair, label: str | int) -> distillation_pb2.DistillationText:
    if isinstance(label, str):
        return distillation_pb2.DistillationText(input=text_input(text), label=label)
    return distillation_pb2.DistillationText(input=text_input(text), label_index=label)
