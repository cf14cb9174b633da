"""Probes: the request that trains them on the server, their scores by layer, and how the stream of a training is read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

import numpy as np
import numpy.typing as npt

from bertscope import _messages as wire
from bertscope import _validation
from bertscope._display import data_frame, short_repr, table_html
from bertscope._messages import Interventions, Numbers
from bertscope.errors import InvalidReply, invalid_argument
from bertscope.intervals import Interval, wilson_interval
from bertscope.models import Model, model_name
from bertscope.representations.probe_texts import ProbeText, names_of
from bertscope.results import Provenance
from bertscope.v1 import common_pb2
from bertscope.v1 import representation_probes_pb2 as probes_pb2
from bertscope.v1.representation_probes_pb2 import (
    LayerProbes,
    ProbeReport,
    TrainProbeRequest,
    TrainProbeResponse,
)

if TYPE_CHECKING:
    import pandas as pd

Pooling = Literal["mean", "first", "last"]
"""How the states of a span's pieces become one vector."""
ProbeEnding = Literal["dev", "minimum"]
"""When training ends: by the loss on the dev texts, or at the minimum of what it minimises."""
POOLINGS = wire.values(Pooling, TrainProbeRequest.Pooling, "POOLING_")
ENDINGS = wire.values(ProbeEnding, TrainProbeRequest.Ending, "ENDING_")
Texts = ProbeText | Iterable[ProbeText]


@dataclass(frozen=True)
class ProbeProgress:
    """The progress of `train_probe`."""

    __repr__ = short_repr

    stage: str
    """"states": the model runs the texts; "training"."""
    done: int
    """Texts that were run, or epochs that were trained."""
    total: int
    """All of them. Training may end before the last epoch."""
    best_dev_accuracy: float
    """The largest share of dev spans that a layer's probe has classified correctly so far."""


@dataclass(frozen=True)
class ProbePart:
    """The spans of one part of the texts."""

    __repr__ = short_repr

    texts: int
    """Its texts."""
    spans: int
    """Its spans that were used."""
    truncated_spans: int
    """Its spans that were left out because they were cut away with the end of a text."""
    empty_spans: int
    """Its spans that were left out because no piece begins in them."""
    label_spans: tuple[int, ...]
    """The used spans of each class."""
    majority_correct: int
    """The used spans of the most frequent class of the training spans."""

    @property
    def majority(self) -> float:
        """The share of spans that always answering that class gets right."""
        return self.majority_correct / self.spans


@dataclass(frozen=True)
class LayerProbe:
    """How the probes of one layer do on the spans that were scored. Accuracies are means over seeds."""

    __repr__ = short_repr

    layer: int
    """0, the embeddings, to the number of layers."""
    accuracy: float
    """Share of spans classified correctly."""
    interval: Interval
    """Wilson's interval of that share, 95 %: of other spans, not of other seeds."""
    control_accuracy: float
    """Share of spans that get the control task's class (Hewitt and Liang 2019)."""
    selectivity: float
    """accuracy - control_accuracy."""
    loss: float
    """Mean cross-entropy, nats."""
    dev_loss: float
    """The same on the dev spans, of the first seed: the layer with the lowest is the best."""
    spread: tuple[float, float]
    """The least and the largest accuracy of a seed."""
    best_epochs: tuple[int, ...]
    """The epoch of each seed whose weights were kept, from 1."""
    gradient: float | None
    """With ending="minimum", the largest absolute partial derivative at these weights, of the seed that has the largest: above
    0.0001 if `max_epochs` ended training."""


COLUMNS = ("layer", "accuracy", "low", "high", "control", "selectivity", "loss", "seed_low", "seed_high")


@dataclass(frozen=True, repr=False)
class ProbeResult:
    """Linear probes of all layers, beside a control task and the most frequent class."""

    __repr__ = short_repr

    layers: tuple[LayerProbe, ...]
    """The probes, in ascending order of their layers."""
    labels: tuple[str, ...]
    """The names of the classes."""
    scored: str
    """The part that scores are of: "test", or "dev" without test texts."""
    train: ProbePart
    """The spans that probes were trained on."""
    dev: ProbePart
    """The spans that ended training."""
    test: ProbePart | None
    """The spans that probes were tested on; None without test texts."""
    majority_label: str
    """The most frequent class of the training spans."""
    best_layer: int
    """The layer with the lowest loss on the dev spans."""
    confusion: npt.NDArray[np.int64]
    """Scored spans by class (row) and by the best layer's answer (column), [classes, classes]."""
    pooling: str
    """How a span's pieces became one vector."""
    seeds: tuple[int, ...]
    """The seeds."""
    hidden_size: int
    """Length of a state."""
    on_disk: bool
    """True if the server kept the states in a file."""
    seconds: float
    """How long it took."""
    provenance: Provenance
    """Provenance of the states."""
    weights: Mapping[int, tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]] = field(default_factory=dict)
    """By layer, weights [hidden_size, classes] and biases [classes] of the first seed's probe, if they were asked for: scores
    before the softmax are states @ weights + biases."""

    @property
    def part(self) -> ProbePart:
        """The part that scores are of."""
        return self.dev if self.test is None else self.test

    def layer(self, layer: int) -> LayerProbe:
        """Returns the probe of a layer. Raises KeyError for one that was not asked for."""
        for probe in self.layers:
            if probe.layer == layer:
                return probe
        raise KeyError(f"layer {layer}: probes are of layers {[probe.layer for probe in self.layers]}")

    def confusions(self) -> list[tuple[str, str, int]]:
        """Returns the classes that the best layer's probe takes for another, (class, answer, spans), most frequent first."""
        found = [
            (self.labels[gold], self.labels[answer], int(self.confusion[gold, answer]))
            for gold, answer in np.argwhere(self.confusion)
            if gold != answer
        ]
        return sorted(found, key=lambda entry: -entry[2])

    def rows(self) -> list[tuple[Any, ...]]:
        """Returns a row for each layer, with the values of the table's columns."""
        return [
            (one.layer, one.accuracy, *one.interval, one.control_accuracy, one.selectivity, one.loss, *one.spread)
            for one in self.layers
        ]

    def to_pandas(self) -> pd.DataFrame:
        """Returns a row for each layer. Needs pandas."""
        return data_frame(self.rows(), list(COLUMNS))

    def _repr_html_(self) -> str | None:
        return table_html(self)


def probe_columns(found: ProbeResult) -> dict[str, list[Any]]:
    """Returns the columns of the table of probes, by name."""
    return dict(zip(COLUMNS, map(list, zip(*found.rows(), strict=True)), strict=True))


def train_probe_request(
    train: Texts,
    *,
    dev: Texts,
    test: Texts,
    labels: str | Iterable[str] | None,
    model: str | Model | None,
    layers: Numbers | None,
    pooling: str,
    l2: float | None,
    max_epochs: SupportsIndex | None,
    patience: SupportsIndex | None,
    ending: str,
    seeds: SupportsIndex,
    seed: SupportsIndex,
    weights: bool,
    truncate: bool,
    memory_bytes: SupportsIndex | None,
    interventions: Interventions,
    reference_texts: str | Iterable[str],
) -> TrainProbeRequest:
    """Returns the request of TrainProbe. Raises InvalidArgument for what can't be sent."""
    parts = {name: _listed(name, texts) for name, texts in (("train", train), ("dev", dev), ("test", test))}
    if not parts["train"]:
        raise invalid_argument("train", "is empty; give texts to train on")
    names = (
        names_of(text for texts in parts.values() for text in texts) if labels is None else _validation.texts("labels", labels)
    )
    numbers = {name: number for number, name in enumerate(names)}
    request = TrainProbeRequest(
        model=model_name("model", model),
        labels=names,
        layers=_validation.uint32s("layers", layers),
        pooling=_validation.choice("pooling", pooling, POOLINGS),
        l2=None if l2 is None else _validation.finite_number("l2", l2),
        max_epochs=0 if max_epochs is None else _validation.positive("max_epochs", max_epochs),
        patience=0 if patience is None else _validation.positive("patience", patience),
        ending=_validation.choice("ending", ending, ENDINGS),
        seeds=_validation.positive("seeds", seeds),
        seed=_validation.uint64("seed", seed),
        weights=_validation.flag("weights", weights),
        truncate=_validation.flag("truncate", truncate),
        memory_bytes=None if memory_bytes is None else _validation.uint64("memory_bytes", memory_bytes),
        interventions=wire.head_interventions(interventions),
        reference_texts=_validation.texts("reference_texts", reference_texts),
    )
    for name, texts in parts.items():
        getattr(request, name).extend(_message(f"{name}[{index}]", text, numbers) for index, text in enumerate(texts))
    return request


def _listed(name: str, texts: Texts) -> Sequence[ProbeText]:
    given = [texts] if isinstance(texts, ProbeText) else list(_validation.many(name, texts, "ProbeTexts"))
    found = []
    for index, text in enumerate(given):
        if not isinstance(text, ProbeText):
            raise invalid_argument(f"{name}[{index}]", f"must be a ProbeText, not {type(text).__name__}")
        found.append(text)
    return found


def _message(field: str, text: ProbeText, numbers: Mapping[str, int]) -> probes_pb2.ProbeText:
    message = probes_pb2.ProbeText(input=wire.text_input(text.text))
    for index, (label, *place) in enumerate(text.labels):
        if label not in numbers:
            raise invalid_argument(f"{field}.labels[{index}]", "has a label that labels does not list")
        span = common_pb2.CharacterSpan(start=place[0], end=place[1], segment=place[2])
        message.spans.add(span=span, label=numbers[label])
    return message


class ProbeAssembler:
    """The state of one TrainProbe stream: messages in, progress out, and the result at the end."""

    def __init__(self, request: TrainProbeRequest) -> None:
        self._labels = tuple(request.labels)
        self._wanted = request.weights
        self._report: ProbeReport | None = None
        self._weights: dict[int, tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]] = {}

    def add(self, message: TrainProbeResponse) -> ProbeProgress | ProbeResult | None:
        """Processes one message. Returns its progress; the result, once all of it is there. Raises InvalidReply."""
        event = message.WhichOneof("event")
        if event == "progress":
            stage = wire.enum_name(probes_pb2.ProbeProgress.Stage, message.progress.stage, "STAGE_")
            return wire.read(ProbeProgress, message.progress, stage=stage)
        if event == "report":
            self._report = message.report
        elif event == "weights":
            weights = wire.matrix(message.weights.weights)
            biases = np.frombuffer(message.weights.biases.data, "<f4").astype(np.float32)
            if len(biases) != weights.shape[1] or len(biases) != len(self._labels):
                raise InvalidReply(f"the server sent {len(biases)} biases for weights of shape {list(weights.shape)}")
            self._weights[message.weights.layer] = weights, biases
        if self._report is None or (self._wanted and len(self._weights) < len(self._report.layers)):
            return None
        return _result(self._report, self._labels, self._weights)


def _result(report: ProbeReport, labels: tuple[str, ...], weights: Mapping[int, Any]) -> ProbeResult:
    tested = report.HasField("test")
    part, count = report.test if tested else report.dev, len(labels)
    if not part.spans or not report.layers or not all(layer.task and layer.control for layer in report.layers):
        raise InvalidReply("the server sent a report of probes without scores")
    if len(report.confusion) != count**2 or report.majority_label >= count:
        raise InvalidReply(f"the server sent {len(report.confusion)} counts of confusions for {count} classes")
    return wire.read(
        ProbeResult,
        report,
        layers=tuple(_layer(layer, part.spans, "test" if tested else "dev") for layer in report.layers),
        labels=labels,
        scored="test" if tested else "dev",
        train=wire.read(ProbePart, report.train),
        dev=wire.read(ProbePart, report.dev),
        test=wire.read(ProbePart, report.test) if tested else None,
        majority_label=labels[report.majority_label],
        confusion=np.array(report.confusion, dtype=np.int64).reshape(count, count),
        pooling=wire.enum_name(TrainProbeRequest.Pooling, report.pooling, "POOLING_"),
        seeds=tuple(run.seed for run in report.layers[0].task),
        provenance=wire.provenance(report.provenance),
        weights=dict(weights),
    )


def _layer(layer: LayerProbes, spans: int, part: str) -> LayerProbe:
    task, control = ([getattr(run, part) for run in runs] for runs in (layer.task, layer.control))
    shares = [score.correct / spans for score in task]
    accuracy, by_chance = float(np.mean(shares)), float(np.mean([score.correct / spans for score in control]))
    return LayerProbe(
        layer=layer.layer,
        accuracy=accuracy,
        interval=wilson_interval(round(accuracy * spans), spans),
        control_accuracy=by_chance,
        selectivity=accuracy - by_chance,
        loss=float(np.mean([score.loss for score in task])),
        dev_loss=layer.task[0].dev.loss,
        spread=(min(shares), max(shares)),
        best_epochs=tuple(run.best_epoch for run in layer.task),
        gradient=max((run.gradient for run in layer.task if run.HasField("gradient")), default=None),
    )
