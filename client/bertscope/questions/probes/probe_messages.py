"""Puts labelled texts into the requests of TrainProbe and TrainEraser, and reads the stream of TrainProbe."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from bertscope.errors import InvalidReply, invalid_argument
from bertscope.questions.probes.probes import CumulativeProbe, LayerMix, LayerProbe, ProbeProgress, ProbeResult
from bertscope.v1 import common_pb2
from bertscope.v1 import representation_probes_pb2 as probes_pb2
from bertscope.v1.representation_eraser_pb2 import TrainEraserRequest
from bertscope.v1.representation_probes_pb2 import LayerProbes, ProbeReport, ProbeWeights, TrainProbeRequest, TrainProbeResponse
from bertscope.values import messages as wire
from bertscope.values import validation
from bertscope.values.intervals import Interval, share_interval
from bertscope.values.labelled_texts import Label, ProbeText, Value, ValuedText, names_of
from bertscope.values.positions import Span
from bertscope.values.tensors import matrix, vector

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


Result = TypeVar("Result")


class Assembler(ABC, Generic[Result]):
    """The state of one TrainProbe stream: messages in, progress out, and the result at the end."""

    def __init__(self, request: TrainProbeRequest) -> None:
        self._wanted = request.weights
        outputs = len(request.labels) or 1
        self._shape = (request.hidden_units, outputs) if request.hidden_units else (outputs,)
        self._report: ProbeReport | None = None
        self._weights: dict[int, tuple[npt.NDArray[np.float32], ...]] = {}

    def add(self, message: TrainProbeResponse) -> ProbeProgress | Result | None:
        """Processes one message. Returns its progress; the result, once all of it is there. Raises InvalidReply."""
        event = message.WhichOneof("event")
        if event == "progress":
            return wire.read(ProbeProgress, message.progress)
        if event == "report":
            self._report = message.report
        elif event == "weights":
            self._weights[message.weights.layer] = _weights(message.weights, self._shape)
        if self._report is None or (self._wanted and len(self._weights) < len(self._report.layers)):
            return None
        return self._result(self._report)

    @abstractmethod
    def _result(self, report: ProbeReport) -> Result:
        """Reads the report, when weights that were asked for are there. Raises InvalidReply."""


class ProbeAssembler(Assembler[ProbeResult]):
    """The stream of a call with labels."""

    def __init__(self, request: TrainProbeRequest) -> None:
        super().__init__(request)
        self._labels, self._mixed = tuple(request.labels), request.mix

    def _result(self, report: ProbeReport) -> ProbeResult:
        return _result(report, self._labels, self._weights, mixed=self._mixed)


def _weights(message: ProbeWeights, outputs: tuple[int, ...]) -> tuple[npt.NDArray[np.float32], ...]:
    """Returns weights and biases of one product for each number of outputs."""
    tensors = [message.weights, message.biases, message.output_weights, message.output_biases]
    found: list[npt.NDArray[np.float32]] = []
    for count, weights, biases in zip(outputs, tensors[::2], tensors[1::2], strict=False):
        read = matrix(weights), vector(biases)
        if read[0].shape[1] != count or len(read[1]) != count:
            raise InvalidReply(f"the server sent {len(read[1])} biases for weights of shape {list(read[0].shape)}")
        found += read
    return tuple(found)


def shared_fields(report: ProbeReport, weights: Mapping[int, Any]) -> dict[str, Any]:
    """Returns the fields that results of classes and of numbers share. Raises InvalidReply for a report without scores."""
    tested = report.HasField("test")
    part = report.test if tested else report.dev
    if not part.spans or not report.layers or not all(layer.task and layer.control for layer in report.layers):
        raise InvalidReply("the server sent a report of probes without scores")
    return {
        "scored": "test" if tested else "dev",
        "pooling": wire.enum_name(TrainProbeRequest.Pooling, report.pooling),
        "seeds": tuple(run.seed for run in report.layers[0].task),
        "weights": dict(weights),
    }


def _result(report: ProbeReport, labels: tuple[str, ...], weights: Mapping[int, Any], *, mixed: bool) -> ProbeResult:
    shared, count = shared_fields(report, weights), len(labels)
    name = shared["scored"]
    part = getattr(report, name)
    if len(report.confusion) != count**2 or report.majority_label >= count:
        raise InvalidReply(f"the server sent {len(report.confusion)} counts of confusions for {count} classes")
    return wire.read(
        ProbeResult,
        report,
        **shared,
        layers=tuple(_layer(layer, part.spans, name) for layer in report.layers),
        labels=labels,
        majority_label=labels[report.majority_label],
        confusion=np.array(report.confusion, dtype=np.int64).reshape(count, count),
        mix=_mix(report, part.spans, name) if mixed else None,
    )


def _layer(layer: LayerProbes, spans: int, part: str) -> LayerProbe:
    task, control = ([getattr(run, part) for run in runs] for runs in (layer.task, layer.control))
    shares = [score.correct / spans for score in task]
    accuracy, by_chance = float(np.mean(shares)), float(np.mean([score.correct / spans for score in control]))
    return LayerProbe(
        layer=layer.layer,
        accuracy=accuracy,
        interval=_interval(layer, spans, part),
        control_accuracy=by_chance,
        selectivity=accuracy - by_chance,
        loss=float(np.mean([score.loss for score in task])),
        dev_loss=layer.task[0].dev.loss,
        spread=(min(shares), max(shares)),
        best_epochs=tuple(run.best_epoch for run in layer.task),
        control_dev_loss=layer.control[0].dev.loss,
        control_loss=float(np.mean([score.loss for score in control])),
        gradient=max((run.gradient for run in layer.task if run.HasField("gradient")), default=None),
    )


def _interval(layer: LayerProbes, spans: int, part: str) -> Interval:
    """Returns the interval of the accuracy over texts. Raises InvalidReply for hits that don't add up to it."""
    size, right, texts = (
        np.array([(each.spans, each.correct, each.texts) for each in layer.hits], dtype=np.int64).reshape(-1, 3).T
    )
    correct = sum(getattr(run, part).correct for run in layer.task)
    if int(texts @ size) != spans or int(texts @ right) != correct:
        raise InvalidReply(f"the server sent hits of layer {layer.layer} that are not its score")
    return share_interval(np.repeat(right / len(layer.task), texts), np.repeat(size, texts).astype(np.float64))


def _mix(report: ProbeReport, spans: int, part: str) -> LayerMix:
    layers, mix = [layer.layer for layer in report.layers], report.mix
    whole = [layer.layer for layer in mix.cumulative] == layers and all(layer.task for layer in mix.cumulative)
    if not whole or not mix.weights or any(len(one.shares) != len(layers) for one in mix.weights):
        raise InvalidReply("the server sent a mix of other layers than its probes have")
    return LayerMix(
        shares=np.array([one.shares for one in mix.weights], dtype=np.float64),
        scales=tuple(one.scale for one in mix.weights),
        cumulative=tuple(_cumulative(layer, spans, part) for layer in mix.cumulative),
    )


def _cumulative(layer: LayerProbes, spans: int, part: str) -> CumulativeProbe:
    scores = [getattr(run, part) for run in layer.task]
    accuracy = float(np.mean([score.correct / spans for score in scores]))
    return CumulativeProbe(
        layer=layer.layer,
        accuracy=accuracy,
        interval=_interval(layer, spans, part),
        loss=float(np.mean([score.loss for score in scores])),
        best_epochs=tuple(run.best_epoch for run in layer.task),
    )
