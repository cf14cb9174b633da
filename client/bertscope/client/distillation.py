# Generated from bertscope/questions/distillation/calls.py. Do not edit: change that file, and run `make client`.
"""Calls that train smaller models: `distill_model`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import SupportsIndex

from bertscope.client.connection import Connection
from bertscope.client.streams import last
from bertscope.questions.ablation.task_objectives import LabelledTexts
from bertscope.questions.compression.messages import step_messages
from bertscope.questions.compression.steps import Step
from bertscope.questions.distillation.results import (
    DistillationAssembler,
    DistillationProgress,
    DistilledModel,
    Texts,
    text_messages,
)
from bertscope.v1 import distillation_pb2
from bertscope.values.choices import StateLoss
from bertscope.values.messages import Numbers
from bertscope.values.models import Model
from bertscope.values.requests import request_of


class DistillationCalls(Connection):
    """The methods of `Client` that train smaller models."""

    def distill_model(
        self,
        model_id: str,
        texts: Texts | LabelledTexts,
        *,
        folder: str,
        steps: Step | Iterable[Step] = (),
        model: str | Model | None = None,
        dev: Texts | LabelledTexts = (),
        test: Texts | LabelledTexts = (),
        soft: float | None = None,
        temperature: float | None = None,
        hard: float | None = None,
        states: float | None = None,
        state_loss: StateLoss | None = None,
        attention: float | None = None,
        teacher_layers: Numbers | None = None,
        epochs: SupportsIndex | None = None,
        batch_tokens: SupportsIndex | None = None,
        learning_rate: float | None = None,
        warm_up: float | None = None,
        weight_decay: float | None = None,
        mask_rate: float | None = None,
        evaluations: SupportsIndex | None = None,
        seed: SupportsIndex = 0,
        truncate: bool = False,
        train_embeddings: bool = False,
        on_progress: Callable[[DistillationProgress], object] | None = None,
        timeout: float | None = None,
    ) -> DistilledModel:
        """Makes a smaller model of `model`, the teacher, trains it on the server to answer as that does (Hinton et al. 2015,
        Sanh et al. 2019, Jiao et al. 2020), saves it in `folder` on the server, and loads it under `model_id`.

        `steps` are those of `compress_model`: they make the student, and `int8` at the end trains it with the rounding of 8-bit
        integers (quantization-aware training); without steps the teacher is trained on. `texts` need no labels: a masked LM
        learns from masked pieces, `mask_rate` (0.15) of a text; a classifier, of texts or of tokens, from its teacher's
        probabilities, and one of texts also from the labels of `LabelledTexts` if `hard` is over 0. `dev` chooses the weights
        that are kept and `test` scores them; each is a tenth of `texts`, at most 500, unless given.

        The loss is a sum of parts with weights: `soft` (1), the teacher's probabilities at `temperature` (2); `hard` (0), gold
        answers; `states` (30), hidden states by `state_loss` ("cosine", "mse"); `attention` (0), attention maps. Each layer
        imitates the teacher's layer before the next that was kept, or `teacher_layers`. `epochs` (3), `batch_tokens` (512),
        `learning_rate` (0.0005), `warm_up` (0.05), `weight_decay` (0.01) and `evaluations` on dev (5) are training's; `seed`
        draws the parts, masks and order. Embeddings stay the teacher's unless `train_embeddings`.

        All texts go in one call: at most 100,000, and no more bytes than the server takes (16 MiB). An exception in
        `on_progress`, or Ctrl-C, ends it; the same call goes on from what the server kept beside the folder, also after the
        server was killed. Raises AlreadyExists for an id in use or a folder that is not empty, Unimplemented for a model or a
        step that can't be trained.

        >>> client.distill_model(
        ...     "small", texts, steps=bertscope.keep_layers([0, 2, 4]), folder="/models/small"
        ... )  # doctest: +SKIP
        """
        request = request_of(
            distillation_pb2.DistillModelRequest,
            model=model,
            model_id=model_id,
            folder=folder,
            steps=step_messages(steps),
            train=text_messages("texts", texts),
            dev=text_messages("dev", dev),
            test=text_messages("test", test),
            objective=request_of(
                distillation_pb2.DistillationObjective,
                soft=soft,
                temperature=temperature,
                hard=hard,
                states=states,
                state_loss=state_loss,
                attention=attention,
                teacher_layers=teacher_layers,
            ),
            epochs=epochs,
            batch_tokens=batch_tokens,
            learning_rate=learning_rate,
            warm_up=warm_up,
            weight_decay=weight_decay,
            mask_rate=mask_rate,
            evaluations=evaluations,
            seed=seed,
            truncate=truncate,
            train_embeddings=train_embeddings,
        )
        messages = self._stream(request, distillation_pb2.DistillModelResponse, timeout)
        return last(messages, DistillationAssembler().add, on_progress, DistilledModel, "distillation without a model")
