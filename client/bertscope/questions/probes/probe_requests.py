"""Puts labelled texts into the requests of TrainProbe and TrainEraser."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from bertscope.errors import invalid_argument
from bertscope.v1 import common_pb2
from bertscope.v1 import representation_probes_pb2 as probes_pb2
from bertscope.v1.representation_eraser_pb2 import TrainEraserRequest
from bertscope.v1.representation_probes_pb2 import TrainProbeRequest
from bertscope.values import messages as wire
from bertscope.values import validation
from bertscope.values.labelled_texts import Label, ProbeText, Value, ValuedText, names_of
from bertscope.values.spans import Span

POOLINGS = wire.names_of_values(TrainProbeRequest.Pooling.DESCRIPTOR)
Texts = ProbeText | Iterable[ProbeText]
ValuedTexts = ValuedText | Iterable[ValuedText]
Request = TypeVar("Request", TrainProbeRequest, TrainEraserRequest)


def with_probe_texts(
    request: TrainProbeRequest, train: Texts, *, dev: Texts, test: Texts, labels: str | Iterable[str] | None
) -> TrainProbeRequest:
    """Returns the request with its texts and labels, those of the texts unless given."""
    return _with_texts(request, {"train": train, "dev": dev, "test": test}, labels)


def with_erased_texts(
    request: TrainEraserRequest, train: Texts, *, test: Texts, labels: str | Iterable[str] | None
) -> TrainEraserRequest:
    """Returns the request with its texts and labels, those of the texts unless given."""
    return _with_texts(request, {"train": train, "test": test}, labels)


def with_valued_texts(
    request: TrainProbeRequest, train: ValuedTexts, *, dev: ValuedTexts, test: ValuedTexts
) -> TrainProbeRequest:
    """Returns the request with its texts, whose spans have numbers."""
    parts = {
        name: validation.instances(name, texts, ValuedText) for name, texts in (("train", train), ("dev", dev), ("test", test))
    }
    if not parts["train"]:
        raise invalid_argument("train", "is empty; give texts to train on")
    for name, texts in parts.items():
        for text in texts:
            message = getattr(request, name).add(input=wire.text_input(text.text))
            for value, *place, other in map(Value._make, text.values):
                message.spans.add(value=value, **_places(place, other))
    return request


def _with_texts(request: Request, given: Mapping[str, Texts], labels: str | Iterable[str] | None) -> Request:
    parts = {name: validation.instances(name, texts, ProbeText) for name, texts in given.items()}
    if not parts["train"]:
        raise invalid_argument("train", "is empty; give texts to train on")
    names = (
        names_of(text for texts in parts.values() for text in texts) if labels is None else validation.texts("labels", labels)
    )
    numbers = {name: number for number, name in enumerate(names)}
    request.labels.extend(names)
    for name, texts in parts.items():
        getattr(request, name).extend(_message(f"{name}[{index}]", text, numbers) for index, text in enumerate(texts))
    return request


def _message(field: str, text: ProbeText, numbers: Mapping[str, int]) -> probes_pb2.ProbeText:
    message = probes_pb2.ProbeText(input=wire.text_input(text.text))
    for index, (label, *place, other) in enumerate(map(Label._make, text.labels)):
        if label not in numbers:
            raise invalid_argument(f"{field}.labels[{index}]", "has a label that labels does not list")
        message.spans.add(label=numbers[label], **_places(place, other))
    return message


def _places(place: Sequence[int], other: Span | None) -> dict[str, Any]:
    """Returns the fields with a span's part, and with the second one of a pair."""
    start, end, segment = place
    second = None if other is None else common_pb2.CharacterSpan(**other._asdict())
    return {"span": common_pb2.CharacterSpan(start=start, end=end, segment=segment), "other": second}
