"""Reads replies into results. Pure: no channel, no clock; both clients use these functions.

Every function raises InvalidReply for a reply that breaks the contract.
"""

import datetime
from collections.abc import Iterable
from typing import Any

from bertscope import _requests
from bertscope.classification import ClassifiedText, ClassifiedTexts, LabelPrediction
from bertscope.compression import AppliedStep, CompressionProgress
from bertscope.errors import InvalidReply
from bertscope.results import (
    FilledMask,
    FilledText,
    FilledTexts,
    LoadProgress,
    Model,
    Prediction,
    Provenance,
    Token,
)
from bertscope.v1 import classification_pb2, cloze_pb2, common_pb2, compression_pb2, model_pb2

PRECISIONS = {message: name for name, message in _requests.PRECISIONS.items()}
"""Those whose names are shorter than in the contract."""


def filled_texts(request: cloze_pb2.FillMaskRequest, response: cloze_pb2.FillMaskResponse) -> FilledTexts:
    """The answers, each with the text it is about."""
    if len(response.results) != len(request.texts):
        raise InvalidReply(f"the server answered {len(response.results)} of {len(request.texts)} texts")
    source = provenance(response.provenance)
    return FilledTexts(
        FilledText(
            text=text,
            masks=tuple(map(_filled_mask, result.masks)),
            tokens=result.tokens,
            truncated_tokens=result.truncated_tokens,
            provenance=source,
        )
        for text, result in zip(request.texts, response.results, strict=True)
    )


def classified_texts(
    request: classification_pb2.ClassifyRequest, response: classification_pb2.ClassifyResponse
) -> ClassifiedTexts:
    """The labels, each list of them with the text or pair it is about."""
    if len(response.results) != len(request.inputs):
        raise InvalidReply(f"the server answered {len(response.results)} of {len(request.inputs)} texts")
    if not all(result.labels for result in response.results):
        raise InvalidReply("the server answered a text without a label")
    source = provenance(response.provenance)
    return ClassifiedTexts(
        ClassifiedText(
            text=asked.text,
            text_pair=asked.text_pair if asked.HasField("text_pair") else None,
            labels=tuple(map(_label_prediction, result.labels)),
            tokens=result.tokens,
            truncated_tokens=result.truncated_tokens,
            provenance=source,
        )
        for asked, result in zip(request.inputs, response.results, strict=True)
    )


def models(messages: Iterable[model_pb2.Model]) -> list[Model]:
    """The models of one page."""
    return [model(message) for message in messages]


def model(message: model_pb2.Model) -> Model:
    """A hosted model."""
    ready = message.ready_time.ToDatetime(datetime.UTC) if message.HasField("ready_time") else None
    return Model(
        name=message.name,
        source=message.source,
        architecture=message.architecture,
        runtime=_runtime(message.runtime),
        device=message.device,
        precision=precision(message.precision),
        layers=message.layers,
        heads=message.heads,
        hidden_size=message.hidden_size,
        vocabulary_size=message.vocabulary_size,
        max_tokens=message.max_tokens,
        parameters=message.parameters,
        weight_bytes=message.weight_bytes,
        capabilities=tuple(enum_name(model_pb2.Capability, value, "CAPABILITY_") for value in message.capabilities),
        state=enum_name(model_pb2.Model.State, message.state, "STATE_"),
        weights_digest=message.weights_digest,
        mask_token=message.mask_token,
        ready_time=ready,
        labels=tuple(message.labels),
        pruned_heads=heads_by_layer(message.pruned_heads),
        compression=applied_steps(message.compression),
    )


def load_event(message: model_pb2.LoadModelResponse) -> LoadProgress | Model | None:
    """What one message of LoadModel says; None for an event that this version does not know."""
    if message.HasField("model"):
        return model(message.model)
    if not message.HasField("progress"):
        return None
    progress = message.progress
    return LoadProgress(
        stage=enum_name(model_pb2.LoadProgress.Stage, progress.stage, "STAGE_"),
        done_bytes=progress.done_bytes,
        total_bytes=progress.total_bytes,
        detail=progress.detail,
    )


def loaded(event: LoadProgress | Model | None) -> Model:
    """The model that the last event of LoadModel must be."""
    if not isinstance(event, Model):
        raise InvalidReply("the server ended the load without a model")
    return event


def applied_steps(messages: Iterable[compression_pb2.AppliedStep]) -> tuple[AppliedStep, ...]:
    """What was done to a model."""
    return tuple(AppliedStep(message.step, message.description, dict(message.numbers)) for message in messages)


def compression_event(message: model_pb2.CompressModelResponse) -> CompressionProgress | Model | None:
    """What one message of CompressModel says; None for an event that this version does not know."""
    if message.HasField("model"):
        return model(message.model)
    if not message.HasField("progress"):
        return None
    progress = message.progress
    return CompressionProgress(progress.done_steps, progress.total_steps, progress.detail)


def compressed(event: CompressionProgress | Model | None) -> Model:
    """The model that the last event of CompressModel must be."""
    if not isinstance(event, Model):
        raise InvalidReply("the server ended the compression without a model")
    return event


def precision(number: common_pb2.Precision.ValueType) -> str:
    """ "fp32"; empty where the server does not say, as for a model that still loads."""
    return PRECISIONS.get(number) or enum_name(common_pb2.Precision, number, "PRECISION_") if number else ""


def provenance(message: common_pb2.Provenance) -> Provenance:
    """Where an answer comes from."""
    return Provenance(
        model=message.model,
        weights_digest=message.weights_digest,
        runtime=_runtime(message.runtime),
        device=message.device,
        precision=precision(message.precision),
        library_versions=dict(message.library_versions),
        numbering=enum_name(common_pb2.Numbering, message.numbering, "NUMBERING_"),
    )


def token(message: common_pb2.Token) -> Token:
    """One position of a sequence."""
    return Token(
        text=message.text,
        id=message.id if message.HasField("id") else None,
        start=message.start,
        end=message.end,
        special=message.special,
        word=message.word if message.HasField("word") else None,
        segment=message.segment,
        pieces=tuple(message.pieces),
    )


def heads_by_layer(messages: Iterable[common_pb2.LayerHeads]) -> dict[int, tuple[int, ...]]:
    """Heads of several layers."""
    return {message.layer: tuple(message.heads) for message in messages}


def enum_name(enum: Any, number: int, prefix: str) -> str:
    """ "torch" for RUNTIME_TORCH; the bare number for a value that a newer server knows and this version does not."""
    try:
        return str(enum.Name(number)).removeprefix(prefix).lower()
    except ValueError:
        return str(number)


def _filled_mask(message: cloze_pb2.FilledMask) -> FilledMask:
    return FilledMask(
        predictions=tuple(map(_prediction, message.predictions)),
        start=message.start,
        end=message.end,
        token_index=message.token_index,
    )


def _prediction(message: cloze_pb2.Prediction) -> Prediction:
    share = message.candidate_probability if message.HasField("candidate_probability") else None
    return Prediction(
        token=message.token,
        pieces=tuple(message.pieces),
        piece_ids=tuple(message.piece_ids),
        probability=message.probability,
        log_probability=message.log_probability,
        candidate_probability=share,
        rank=message.rank if message.HasField("rank") else None,
    )


def _label_prediction(message: classification_pb2.LabelPrediction) -> LabelPrediction:
    return LabelPrediction(label=message.label, index=message.index, probability=message.probability, logit=message.logit)


def _runtime(number: int) -> str:
    """ "torch"; empty where the server does not say, as for a model that still loads."""
    return enum_name(common_pb2.Runtime, number, "RUNTIME_") if number else ""
