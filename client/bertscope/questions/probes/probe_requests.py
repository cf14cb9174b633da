"""Makes the request of TrainProbe."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import SupportsIndex

from bertscope.errors import invalid_argument
from bertscope.questions.probes.probes import Pooling, ProbeEnding
from bertscope.v1 import common_pb2
from bertscope.v1 import representation_probes_pb2 as probes_pb2
from bertscope.v1.representation_probes_pb2 import TrainProbeRequest
from bertscope.values import messages as wire
from bertscope.values import validation
from bertscope.values.labelled_texts import Label, ProbeText, names_of
from bertscope.values.messages import Interventions, Numbers
from bertscope.values.models import Model, model_name

POOLINGS = wire.values(Pooling, TrainProbeRequest.Pooling, "POOLING_")
ENDINGS = wire.values(ProbeEnding, TrainProbeRequest.Ending, "ENDING_")
Texts = ProbeText | Iterable[ProbeText]


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
    hidden_units: SupportsIndex,
    mix: bool,
    seeds: SupportsIndex,
    seed: SupportsIndex,
    weights: bool,
    truncate: bool,
    memory_bytes: SupportsIndex | None,
    interventions: Interventions,
    reference_texts: str | Iterable[str],
) -> TrainProbeRequest:
    """Returns the request of TrainProbe. Raises InvalidArgument for what can't be sent."""
    parts = {name: listed(name, texts) for name, texts in (("train", train), ("dev", dev), ("test", test))}
    if not parts["train"]:
        raise invalid_argument("train", "is empty; give texts to train on")
    names = (
        names_of(text for texts in parts.values() for text in texts) if labels is None else validation.texts("labels", labels)
    )
    numbers = {name: number for number, name in enumerate(names)}
    request = TrainProbeRequest(
        model=model_name("model", model),
        labels=names,
        layers=validation.uint32s("layers", layers),
        pooling=validation.choice("pooling", pooling, POOLINGS),
        l2=None if l2 is None else validation.finite_number("l2", l2),
        max_epochs=0 if max_epochs is None else validation.positive("max_epochs", max_epochs),
        patience=0 if patience is None else validation.positive("patience", patience),
        ending=validation.choice("ending", ending, ENDINGS),
        hidden_units=validation.uint32("hidden_units", hidden_units),
        mix=validation.flag("mix", mix),
        seeds=validation.positive("seeds", seeds),
        seed=validation.uint64("seed", seed),
        weights=validation.flag("weights", weights),
        truncate=validation.flag("truncate", truncate),
        memory_bytes=None if memory_bytes is None else validation.uint64("memory_bytes", memory_bytes),
        interventions=wire.head_interventions(interventions),
        reference_texts=validation.texts("reference_texts", reference_texts),
    )
    for name, texts in parts.items():
        getattr(request, name).extend(_message(f"{name}[{index}]", text, numbers) for index, text in enumerate(texts))
    return request


def listed(name: str, texts: Texts) -> Sequence[ProbeText]:
    given = [texts] if isinstance(texts, ProbeText) else list(validation.many(name, texts, "ProbeTexts"))
    found = []
    for index, text in enumerate(given):
        if not isinstance(text, ProbeText):
            raise invalid_argument(f"{name}[{index}]", f"must be a ProbeText, not {type(text).__name__}")
        found.append(text)
    return found


def _message(field: str, text: ProbeText, numbers: Mapping[str, int]) -> probes_pb2.ProbeText:
    message = probes_pb2.ProbeText(input=wire.text_input(text.text))
    for index, (label, *place, other) in enumerate(map(Label._make, text.labels)):
        if label not in numbers:
            raise invalid_argument(f"{field}.labels[{index}]", "has a label that labels does not list")
        span = common_pb2.CharacterSpan(start=place[0], end=place[1], segment=place[2])
        second = None if other is None else common_pb2.CharacterSpan(**other._asdict())
        message.spans.add(span=span, label=numbers[label], other=second)
    return message
