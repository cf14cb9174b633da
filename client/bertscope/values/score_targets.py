"""One number that a model gives to a text: what is attributed to its words, or measured under changes."""

from __future__ import annotations

from typing import Any, SupportsIndex

from bertscope.errors import invalid_argument
from bertscope.v1 import common_pb2, representation_states_pb2, target_pb2
from bertscope.values import validation
from bertscope.values.choices import StatePooling, TargetScale
from bertscope.values.display import record
from bertscope.values.messages import enum_value, text_input
from bertscope.values.positions import span
from bertscope.values.validation import TextOrPair

__all__ = ["Answer", "NextSentence", "PassageAnswer", "SimilarTo", "TextLabel", "TextValue", "WordLabel"]

Place = tuple[int, int] | tuple[int, int, int]
"""(start, end) or (start, end, segment), code points."""


class TargetMessage:
    """Makes the message of a target; a target that can't be sent raises InvalidArgument when it is made."""

    def __post_init__(self) -> None:
        self._message()

    def _message(self) -> target_pb2.Target:
        """Returns the message. Raises InvalidArgument for values that can't be sent; the server judges the others."""
        raise NotImplementedError


@record
class Answer(TargetMessage):
    """The score of a word at a mask, or by how much it is above that of another word. Needs a masked-LM head.

    >>> Answer("are", "is")
    Answer(answer='are', other='is', mask=None, scale='logit')
    """

    answer: str
    """The word: one entry of the vocabulary."""
    other: str | None = None
    """A word whose number is subtracted; None: none is."""
    mask: SupportsIndex | None = None
    """Number of the mask among those of the text, from 0; required if there are several."""
    scale: TargetScale = "logit"
    """"logit": the score before the softmax; "log_probability": the natural logarithm of the probability; "probability"."""

    def _message(self) -> target_pb2.Target:
        mask = target_pb2.MaskTarget(
            answer=_named("answer", self.answer),
            other=None if self.other is None else _named("other", self.other),
            mask=None if self.mask is None else validation.uint32("mask", self.mask),
        )
        return target_pb2.Target(mask=mask, scale=_scale(self.scale))


@record
class TextLabel(TargetMessage):
    """The score of a label of the whole text, or by how much it is above that of another one. Needs a classification head, or a
    multi-label one."""

    label: str | None = None
    """Name of the label; None: the one that the model scores highest for the whole text."""
    other: str | None = None
    """Name of a label whose number is subtracted; None: none is."""
    scale: TargetScale = "logit"
    """The scale, as in `Answer`."""

    def _message(self) -> target_pb2.Target:
        return target_pb2.Target(label=target_pb2.LabelTarget(**_labels(self)), scale=_scale(self.scale))


@record
class WordLabel(TargetMessage):
    """The score of a label of one word, at the word's first piece. Needs a token classification head.

    >>> WordLabel((0, 5), "B-LOC").word
    (0, 5)
    """

    word: Place
    """The word: (start, end) or (start, end, segment), code points; the piece in which it begins counts."""
    label: str | None = None
    """Name of the label; None: the one that the model scores highest for this word in the whole text."""
    other: str | None = None
    """Name of a label whose number is subtracted; None: none is."""
    scale: TargetScale = "logit"
    """The scale, as in `Answer`."""

    def _message(self) -> target_pb2.Target:
        target = target_pb2.WordLabelTarget(word=common_pb2.CharacterSpan(**span("word", self.word)._asdict()), **_labels(self))
        return target_pb2.Target(word_label=target, scale=_scale(self.scale))


@record
class PassageAnswer(TargetMessage):
    """The score of a span of the passage as the answer to the question: logits of its beginning and its end, added. The text is
    a pair (question, passage). Needs a question answering head."""

    answer: tuple[int, int]
    """The span: (start, end), code points of the passage."""
    scale: TargetScale = "logit"
    """The scale, as in `Answer`; the probability is that of the beginning times that of the end."""

    def _message(self) -> target_pb2.Target:
        place = common_pb2.CharacterSpan(**span("answer", self.answer)._replace(segment=1)._asdict())
        return target_pb2.Target(answer=target_pb2.AnswerTarget(answer=place), scale=_scale(self.scale))


@record
class TextValue(TargetMessage):
    """The value that a regression head gives to the text."""

    def _message(self) -> target_pb2.Target:
        return target_pb2.Target(value=target_pb2.ValueTarget())


@record
class SimilarTo(TargetMessage):
    """The cosine of the pooled vectors of the text and of another one, -1 to 1. Needs hidden states."""

    other: TextOrPair
    """The other text, or pair; it stays whole."""
    pooling: StatePooling | None = None
    """How the last layer's states of a text become one vector; None: as the model's folder declares it, else their mean."""

    def _message(self) -> target_pb2.Target:
        target = target_pb2.SimilarityTarget(
            other=text_input(validation.text_or_pair("other", self.other)),
            pooling=enum_value("pooling", self.pooling, representation_states_pb2.StatePooling),
        )
        return target_pb2.Target(similarity=target)


@record
class NextSentence(TargetMessage):
    """The score of "the second text of the pair follows the first": its logit minus that of "it does not". Needs a head that
    tells next sentences."""

    scale: TargetScale = "logit"
    """The scale, as in `Answer`."""

    def _message(self) -> target_pb2.Target:
        return target_pb2.Target(next_sentence=target_pb2.NextSentenceTarget(), scale=_scale(self.scale))


ScoreTarget = Answer | TextLabel | WordLabel | PassageAnswer | TextValue | SimilarTo | NextSentence
"""One number of one text."""


def target_message(field: str, value: object) -> target_pb2.Target:
    """Returns the message of a target. Raises InvalidArgument for anything else."""
    if not isinstance(value, TargetMessage):
        raise invalid_argument(field, f"must be one of {', '.join(__all__)}, not {type(value).__name__}")
    return value._message()


def described(target: ScoreTarget, label: str = "") -> str:
    """Returns a target in words, with the label that was explained: logit of "are" minus that of "is"."""
    if isinstance(target, TextValue):
        return "value"
    if isinstance(target, SimilarTo):
        return f'cosine with "{target.other if isinstance(target.other, str) else " / ".join(target.other)}"'
    scale = target.scale.replace("_", "-")
    if isinstance(target, NextSentence):
        return f"{scale} of the second text following the first"
    if isinstance(target, PassageAnswer):
        return f"{scale} of the answer at {target.answer[0]}-{target.answer[1]}"
    name = target.answer if isinstance(target, Answer) else label or target.label
    place = f" at {target.word[0]}-{target.word[1]}" if isinstance(target, WordLabel) else ""
    other = f' minus that of "{target.other}"' if target.other else ""
    return f'{scale} of "{name}"{place}{other}'


def _named(field: str, value: object) -> str:
    name = validation.text(field, value)
    if not name.strip():
        raise invalid_argument(field, "is empty; name it, or leave it out")
    return name


def _labels(target: TextLabel | WordLabel) -> dict[str, Any]:
    names = {"label": target.label, "other": target.other}
    return {field: _named(field, name) for field, name in names.items() if name is not None}


def _scale(name: str) -> target_pb2.TargetScale.ValueType:
    found: target_pb2.TargetScale.ValueType = enum_value("scale", name, target_pb2.TargetScale)
    return found
