"""Requests of TrainProbe: sentences of random words, each labelled with its class."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from bertscope.v1 import representation_probes_pb2 as probes
from bertscope.v1 import representation_states_pb2 as states
from bertscope_service.probing.kinds import Size
from bertscope_service.probing.lbfgs import LbfgsProbes
from numpy.typing import NDArray

from tests.support.harness import CALL_SECONDS, Host, read_maps
from tests.support.patience import granted

CLASSES = {"cat": 0, "mat": 0, "dog": 0, "the": 1, "a": 1, "on": 2, "of": 2, "in": 2}
LABELS = ["noun", "article", "preposition"]


def texts(count: int, seed: int, length: int = 6) -> list[probes.ProbeText]:
    """Sentences of random words, each labelled with its class."""
    generator = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        text = probes.ProbeText()
        for word in generator.choice(list(CLASSES), size=length):
            start = len(text.input.text) + bool(text.input.text)
            text.input.text += f" {word}" if start else word
            text.spans.add(span={"start": start, "end": start + len(word)}, label=CLASSES[word])
        found.append(text)
    return found


TRAIN, DEV, TEST = texts(40, 1), texts(10, 2), texts(10, 3)


@dataclass
class Answer:
    progress: list[probes.ProbeProgress]
    report: probes.ProbeReport
    weights: list[probes.ProbeWeights]


def request(**fields: Any) -> probes.TrainProbeRequest:
    usual = {"train": TRAIN, "dev": DEV, "test": TEST, "labels": LABELS, "max_epochs": 12}
    return probes.TrainProbeRequest(**usual | fields)


def train(host: Host, **fields: Any) -> Answer:
    events: dict[str, list[Any]] = {"progress": [], "report": [], "weights": []}
    for response in host.representation.TrainProbe(request(**fields), timeout=granted(60)):
        kind = response.WhichOneof("event")
        assert kind == "progress" or not events["weights"] or kind == "weights"
        events[kind].append(getattr(response, kind))
    (report,) = events["report"]
    return Answer(events["progress"], report, events["weights"])


def training_bytes(size: Size, items: int) -> int:
    """The memory that training linear probes takes beside the states."""
    return LbfgsProbes.bytes(size) + LbfgsProbes.step_bytes(size, items)


def noisy(count: int, seed: int) -> list[probes.ProbeText]:
    """Sentences of random words, of which some are labelled as another class: by the word before them, and by chance."""
    generator = np.random.default_rng([seed, 1])
    found = texts(count, seed)
    for text in found:
        for before, entry in zip(list(text.spans), text.spans[1:], strict=False):
            draw = generator.random()
            entry.label = before.label if draw < 0.25 else int(generator.integers(3)) if draw < 0.4 else entry.label
    return found


def vectors(host: Host, part: Sequence[probes.ProbeText], pooling: str) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The states of the spans of some texts, [spans, layers, size], by ExtractHiddenStates; and their labels."""
    given = states.ExtractHiddenStatesRequest(inputs=[text.input for text in part])
    reduce = {"MEAN": lambda rows: rows.mean(axis=1), "FIRST": lambda rows: rows[:, 0], "LAST": lambda rows: rows[:, -1]}
    found, labels = [], []
    maps = read_maps(host.representation.ExtractHiddenStates(given, timeout=CALL_SECONDS))
    for text, own in zip(part, maps, strict=True):
        for entry in text.spans:
            places = [
                place
                for place, token in enumerate(own.header.tokens)
                if not token.special and entry.span.start <= token.start < entry.span.end
            ]
            found.append(reduce[pooling](own.values[:, places]))
            labels.append(entry.label)
    return np.stack(found), np.array(labels)
