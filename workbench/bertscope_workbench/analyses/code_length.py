"""Measures how many bits the labels of words take, given states: minimum description length by online coding.

Probes are trained on growing parts of the texts, and each codes the labels of the next part (Voita and Titov 2020).
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt
from bertscope import Client, Model
from bertscope.errors import invalid_argument
from bertscope.questions.probes.probes import Pooling, ProbeResult
from bertscope.values import validation
from bertscope.values.columns import Column
from bertscope.values.display import ShownAsTable, record
from bertscope.values.interventions import Interventions
from bertscope.values.labelled_texts import ProbeText, names_of
from bertscope.values.messages import Numbers
from bertscope.values.results import Provenance

__all__ = ["CodeLengthProgress", "CodeLengths", "LayerCode", "measure_code_length"]

SHARES = (0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.0625, 0.125, 0.25, 0.5, 1.0)
"""Where parts end, as shares of the texts (Voita and Titov 2020)."""
DEV_SHARE = 0.1
"""The share of the texts that decide when training ends, and are not coded, unless others are given."""


@record
class LayerCode:
    """The code of the labels, given the states of one layer."""

    layer: int
    """0, the embeddings, to the number of layers."""
    bits: float
    """Length of the code."""
    compression: float
    """The length of the uniform code divided by that: 1 says that the states tell nothing."""
    control_bits: float
    """Length of the code of the control task's labels (Hewitt and Liang 2019)."""
    control_compression: float
    """The same of it."""


@record
class CodeLengthProgress:
    """The progress of `measure_code_length`."""

    done: int
    """Parts that are coded."""
    total: int
    """All of them."""


@record
class CodeLengths(ShownAsTable):
    """The lengths of the labels' codes by layer."""

    _table = (
        Column("layer"),
        Column("bits", form=",.0f"),
        Column("compression", form=".2f"),
        Column("control_bits", form=",.0f"),
        Column("control_compression", form=".2f"),
    )

    layers: tuple[LayerCode, ...]
    """The codes, in ascending order of their layers."""
    uniform_bits: float
    """Length of the code that takes log2(classes) bits for each label."""
    spans: int
    """Coded labels."""
    labels: tuple[str, ...]
    """The names of the classes."""
    parts: tuple[int, ...]
    """Where parts end, in texts; labels of the first part are coded uniformly."""
    left_out_spans: int
    """Spans that were cut away with the end of a text, or hold no piece."""
    provenance: Provenance
    """Provenance of the states."""

    @property
    def best_layer(self) -> int:
        """The layer with the shortest code."""
        return min(self.layers, key=lambda one: one.bits).layer

    def _rows(self) -> list[tuple[Any, ...]]:
        """Returns a row for each layer, with the values of the table's columns."""
        return [tuple(getattr(one, column.name) for column in self._table) for one in self.layers]


@record
class CodedTexts:
    """Texts in the order in which they are coded, those that end training, and where parts end."""

    texts: Sequence[ProbeText]
    dev: Sequence[ProbeText]
    ends: tuple[int, ...]


def coded_texts(texts: Iterable[ProbeText], dev: Iterable[ProbeText], seed: int) -> CodedTexts:
    """Shuffles texts and divides them into parts. The first ends where two classes are there. Raises InvalidArgument for texts
    without two classes, or too few of them."""
    shuffled, held = [text for text in texts if text.labels], [*dev]
    random.Random(seed).shuffle(shuffled)  # noqa: S311  # a shuffle of data
    if not held:
        count = round(DEV_SHARE * len(shuffled))
        held, shuffled = shuffled[:count], shuffled[count:]
    first = next((count for count in range(1, len(shuffled)) if _classes(shuffled[:count]) > 1), 0)
    if not (first and held):
        raise invalid_argument(
            "texts", f"are too few to be coded: {len(shuffled)} with labels; two classes and some texts are needed"
        )
    ends = sorted({max(first, math.ceil(share * len(shuffled))) for share in SHARES})
    if len(ends) < 2:
        raise invalid_argument("texts", "have their second class in the last text only; give more")
    return CodedTexts(shuffled, held, tuple(ends))


def _classes(texts: Sequence[ProbeText]) -> int:
    return len({label[0] for text in texts for label in text.labels})


def code_lengths(found: Sequence[ProbeResult], ends: tuple[int, ...]) -> CodeLengths:
    """Returns the lengths of codes, from probes that were tested on the part after the one that they were trained on."""
    first = found[0]
    spans = first.train.spans + sum(one.part.spans for one in found)
    uniform = math.log2(len(first.labels))
    names = ("loss", "dev_loss"), ("control_loss", "control_dev_loss")
    task, control = (_bits(found, *pair) + first.train.spans * uniform for pair in names)
    whole = spans * uniform
    layers = [
        LayerCode(layer.layer, float(bits), whole / float(bits), float(other), whole / float(other))
        for layer, bits, other in zip(first.layers, task, control, strict=True)
    ]
    left_out = sum(part.truncated_spans + part.empty_spans for part in (first.train, *(one.part for one in found)))
    return CodeLengths(tuple(layers), whole, spans, first.labels, ends, left_out, first.provenance)


def _bits(found: Sequence[ProbeResult], loss: str, dev_loss: str) -> npt.NDArray[np.float64]:
    """Returns [layers]: the bits of all tested spans. Probes that the uniform code beats on the dev spans are not used."""
    uniform = math.log(len(found[0].labels))
    nats = [
        [one.part.spans * (getattr(layer, loss) if getattr(layer, dev_loss) < uniform else uniform) for layer in one.layers]
        for one in found
    ]
    return np.asarray(np.sum(nats, axis=0) / math.log(2), dtype=np.float64)


def measure_code_length(
    client: Client,
    texts: ProbeText | Iterable[ProbeText],
    *,
    dev: ProbeText | Iterable[ProbeText] = (),
    labels: str | Iterable[str] | None = None,
    model: str | Model | None = None,
    layers: Numbers | None = None,
    pooling: Pooling = "mean",
    l2: float | None = None,
    hidden_units: SupportsIndex = 0,
    max_epochs: SupportsIndex | None = None,
    seed: SupportsIndex = 0,
    truncate: bool = False,
    memory_bytes: SupportsIndex | None = None,
    interventions: Interventions = (),
    reference_texts: str | Iterable[str] = (),
    on_progress: Callable[[CodeLengthProgress], object] | None = None,
    timeout: float | None = None,
) -> CodeLengths:
    """Measures how many bits the labels of words take, given the states of each layer: a probe that reads them with ease
    makes a short code (minimum description length by online coding, Voita and Titov 2020).

    Texts are shuffled by `seed` and divided where .1, .2, .4, ... 50 and 100 % of them end. The first part's labels take
    log2(classes) bits each; those of each next part -log2 of their probability by probes that were trained on all parts
    before, or as the first's if the uniform code is better on `dev`. `dev`, a tenth of the texts unless given, ends each
    training and is not coded. Beside it the code of a control task's labels. The arguments are those of
    `Client.train_probe`, which is called once for each part; `timeout` holds for each.
    """
    given, held = validation.instances("texts", texts, ProbeText), validation.instances("dev", dev, ProbeText)
    names = names_of([*given, *held]) if labels is None else validation.texts("labels", labels)
    coded = coded_texts(given, held, validation.uint64("seed", seed))
    tell = on_progress or (lambda progress: None)
    found = []
    for number, (begin, end) in enumerate(zip(coded.ends[:-1], coded.ends[1:], strict=True)):
        tell(CodeLengthProgress(number, len(coded.ends) - 1))
        probes = client.train_probe(
            coded.texts[:begin],
            dev=coded.dev,
            test=coded.texts[begin:end],
            labels=names,
            model=model,
            layers=layers,
            pooling=pooling,
            l2=l2,
            hidden_units=hidden_units,
            max_epochs=max_epochs,
            seed=seed,
            truncate=truncate,
            memory_bytes=memory_bytes,
            interventions=interventions,
            reference_texts=reference_texts,
            timeout=timeout,
        )
        found.append(probes)
    tell(CodeLengthProgress(len(found), len(found)))
    return code_lengths(found, coded.ends)
