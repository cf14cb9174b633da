"""Reads the targets of requests: bertscope.v1.Target."""

from __future__ import annotations

from bertscope.v1 import representation_states_pb2 as states_pb2
from bertscope.v1 import target_pb2

from bertscope_service.analyses.observers.targets import Scale
from bertscope_service.analyses.passages import PASSAGE
from bertscope_service.analyses.targets import (
    AnswerQuery,
    LabelQuery,
    MaskQuery,
    NextSentenceQuery,
    SimilarityQuery,
    TargetKind,
    TargetQuery,
    TargetReader,
    ValueQuery,
)
from bertscope_service.api.checks import read_text
from bertscope_service.api.enums import members
from bertscope_service.api.representation_states import DECLARED
from bertscope_service.api.requirements import (
    require_cloze,
    require_declared_pooling,
    require_labels,
    require_next_sentence,
    require_question_answering,
    require_regression,
    require_states,
    require_token_classification,
)
from bertscope_service.api.spans import check_span
from bertscope_service.checkpoints.declared_pooling import DeclaredPooling, Mode
from bertscope_service.errors import InvalidArgument
from bertscope_service.models.loaded import LoadedModel

SCALES: dict[int, Scale] = {
    target_pb2.TARGET_SCALE_UNSPECIFIED: Scale.LOGIT,
    **members(Scale, target_pb2.TargetScale, "TARGET_SCALE_"),
}

POOLINGS: dict[int, Mode] = {
    states_pb2.STATE_POOLING_UNSPECIFIED: Mode.MEAN,
    states_pb2.STATE_POOLING_MEAN: Mode.MEAN,
    states_pb2.STATE_POOLING_FIRST: Mode.CLS,
    states_pb2.STATE_POOLING_LAST: Mode.LAST_TOKEN,
    states_pb2.STATE_POOLING_MAX: Mode.MAX,
}


def parse_target(target: target_pb2.Target, field: str, texts: tuple[str, str | None], model: LoadedModel) -> TargetQuery:
    """Converts a target of a text or pair. Raises InvalidArgument, and Unsupported for a model without its head."""
    kind = target.WhichOneof("kind")
    if kind is None:
        raise InvalidArgument(field, f"{field} has no kind; set one that Target names", "TARGET_MISSING")
    if kind in ("value", "similarity") and target.scale:
        message = f"{field}.scale is for scores with a probability; leave it out"
        raise InvalidArgument(f"{field}.scale", message, "SCALE_UNSUPPORTED")
    return TargetQuery(_KINDS[kind](target, field, texts, model), SCALES[target.scale], field)


def target_reader(model: LoadedModel) -> TargetReader:
    """Returns what reads targets in a model's texts."""
    encoder = model.encoder
    return TargetReader(model.tokenizer, encoder.shape.label_names, several=encoder.capabilities.multi_label)


def _mask(target: target_pb2.Target, field: str, texts: tuple[str, str | None], model: LoadedModel) -> TargetKind:
    require_cloze(model)
    given = target.mask
    other = given.other if given.HasField("other") else None
    return MaskQuery(given.answer, other, given.mask if given.HasField("mask") else None)


def _label(target: target_pb2.Target, field: str, texts: tuple[str, str | None], model: LoadedModel) -> TargetKind:
    require_labels(model)
    given = target.label
    return LabelQuery(given.label, given.other if given.HasField("other") else None)


def _word_label(target: target_pb2.Target, field: str, texts: tuple[str, str | None], model: LoadedModel) -> TargetKind:
    require_token_classification(model)
    given = target.word_label
    word = check_span(given.word, f"{field}.word_label.word", texts)
    return LabelQuery(given.label, given.other if given.HasField("other") else None, word)


def _answer(target: target_pb2.Target, field: str, texts: tuple[str, str | None], model: LoadedModel) -> TargetKind:
    require_question_answering(model)
    place = f"{field}.answer.answer"
    if target.answer.answer.segment != PASSAGE:
        message = f"{place}.segment is {target.answer.answer.segment}; mark a part of the passage, 1"
        raise InvalidArgument(f"{place}.segment", message, "SEGMENT_OUT_OF_RANGE")
    return AnswerQuery(check_span(target.answer.answer, place, texts))


def _value(target: target_pb2.Target, field: str, texts: tuple[str, str | None], model: LoadedModel) -> TargetKind:
    require_regression(model)
    return ValueQuery()


def _similarity(target: target_pb2.Target, field: str, texts: tuple[str, str | None], model: LoadedModel) -> TargetKind:
    require_states(model)
    given = target.similarity
    other = read_text(given.other)
    if given.pooling == DECLARED or (not given.pooling and model.declared is not None):
        pooling = require_declared_pooling(model)
        if pooling.prompt and (texts[1] is not None or other[1] is not None):
            message = "the declared prompt is that of single texts; leave text_pair out, or set another pooling"
            raise InvalidArgument(f"{field}.similarity.pooling", message, "PROMPT_OF_PAIR")
        return SimilarityQuery(*other, pooling)
    return SimilarityQuery(*other, DeclaredPooling((POOLINGS[given.pooling],)))


def _next_sentence(target: target_pb2.Target, field: str, texts: tuple[str, str | None], model: LoadedModel) -> TargetKind:
    require_next_sentence(model)
    return NextSentenceQuery()


_KINDS = {
    "mask": _mask,
    "label": _label,
    "word_label": _word_label,
    "answer": _answer,
    "value": _value,
    "similarity": _similarity,
    "next_sentence": _next_sentence,
}
