"""Structural probes: the request that trains them on the server, their scores by layer, and how the stream is read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

import numpy as np

from bertscope.errors import InvalidReply, invalid_argument
from bertscope.questions.probes.probe_requests import POOLINGS
from bertscope.questions.probes.tree_texts import TreeText
from bertscope.v1 import common_pb2
from bertscope.v1 import representation_structural_probes_pb2 as structural_pb2
from bertscope.v1.representation_probes_pb2 import ProbeProgress as ProgressMessage
from bertscope.v1.representation_probes_pb2 import TrainProbeRequest
from bertscope.v1.representation_structural_probes_pb2 import (
    LayerStructuralProbes,
    StructuralProbeReport,
    TrainStructuralProbeRequest,
    TrainStructuralProbeResponse,
)
from bertscope.values import messages as wire
from bertscope.values import validation
from bertscope.values.display import data_frame, record, table_html
from bertscope.values.messages import Interventions, Numbers
from bertscope.values.models import Model, model_name
from bertscope.values.results import Provenance

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["LayerStructuralProbe", "StructuralProbeProgress", "StructuralProbeResult", "TreePart"]

Quantity = Literal["distance", "depth"]
"""The quantity that a structural probe reads from states."""
QUANTITIES = wire.values(Quantity, TrainStructuralProbeRequest.Quantity, "QUANTITY_")
Texts = TreeText | Iterable[TreeText]


@record
class StructuralProbeProgress:
    """The progress of `train_structural_probe`."""

    stage: str
    """"states": the model runs the texts; "training"."""
    done: int
    """Texts that were run, or epochs that were trained."""
    total: int
    """All of them. Training may end before the last epoch."""
    best_dev_loss: float
    """The lowest loss on the dev texts so far, edges; 0 before the first epoch."""


@record
class TreePart:
    """The texts of one part."""

    texts: int
    """Its texts."""
    used_texts: int
    """Its texts of at least two words with a state."""
    words: int
    """Its words that were used."""
    truncated_words: int
    """Its words that were left out because they were cut away with the end of a text."""
    empty_words: int
    """Its words that were left out because no piece begins in them."""
    total: int
    """The edges, or roots, that there are to find."""
    correlated_texts: int
    """Its used texts of 5 to 50 words, which correlations are of."""


@record
class LayerStructuralProbe:
    """How the probes of one layer do on the texts that were scored. Values are means over seeds."""

    layer: int
    """0, the embeddings, to the number of layers."""
    score: float
    """The undirected unlabelled attachment score (UUAS), or the share of roots found."""
    spearman: float
    """Spearman's correlation, averaged over lengths of 5 to 50 words (DSpr. or NSpr.)."""
    loss: float
    """Mean absolute error, edges."""
    control_score: float
    """`score` of a random projection to the same rank."""
    control_spearman: float
    """`spearman` of that projection."""
    dev_loss: float
    """The loss on the dev texts, of the first seed: the layer with the lowest is the best."""
    spread: tuple[float, float]
    """The least and the largest score of a seed."""
    best_epochs: tuple[int, ...]
    """The epoch of each seed whose map was kept, from 1."""


COLUMNS = ("layer", "score", "spearman", "loss", "control_score", "control_spearman", "seed_low", "seed_high")


@record
class StructuralProbeResult:
    """Structural probes of all layers, beside random projections and a chain of words."""

    layers: tuple[LayerStructuralProbe, ...]
    """The probes, in ascending order of their layers."""
    quantity: Quantity
    """The quantity that they predict."""
    rank: int
    """Rows of the probes' maps."""
    chain_score: float
    """`score` of words in a chain, each one edge from the next; the first is the root."""
    chain_spearman: float
    """`spearman` of that chain."""
    scored: str
    """The part that scores are of: "test", or "dev" without test texts."""
    train: TreePart
    """The texts that probes were trained on."""
    dev: TreePart
    """The texts that ended training."""
    test: TreePart | None
    """The texts that probes were tested on; None without any."""
    best_layer: int
    """The layer with the lowest loss on the dev texts."""
    pooling: str
    """How a word's pieces became one vector."""
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

    @property
    def part(self) -> TreePart:
        """The part that scores are of."""
        return self.dev if self.test is None else self.test

    def layer(self, layer: int) -> LayerStructuralProbe:
        """Returns the probe of a layer. Raises KeyError for one that was not asked for."""
        for probe in self.layers:
            if probe.layer == layer:
                return probe
        raise KeyError(f"layer {layer}: probes are of layers {[probe.layer for probe in self.layers]}")

    def rows(self) -> list[tuple[Any, ...]]:
        """Returns a row for each layer, with the values of the table's columns."""
        return [
            (one.layer, one.score, one.spearman, one.loss, one.control_score, one.control_spearman, *one.spread)
            for one in self.layers
        ]

    def to_pandas(self) -> pd.DataFrame:
        """Returns a row for each layer. Needs pandas."""
        return data_frame(self.rows(), list(COLUMNS))

    def _repr_html_(self) -> str | None:
        return table_html(self)


def structural_columns(found: StructuralProbeResult) -> dict[str, list[Any]]:
    """Returns the columns of the table of structural probes, by name."""
    return dict(zip(COLUMNS, map(list, zip(*found.rows(), strict=True)), strict=True))


def train_structural_probe_request(
    train: Texts,
    *,
    quantity: str,
    dev: Texts,
    test: Texts,
    model: str | Model | None,
    layers: Numbers | None,
    rank: SupportsIndex | None,
    pooling: str,
    max_epochs: SupportsIndex | None,
    patience: SupportsIndex | None,
    seeds: SupportsIndex,
    seed: SupportsIndex,
    truncate: bool,
    memory_bytes: SupportsIndex | None,
    interventions: Interventions,
    reference_texts: str | Iterable[str],
) -> TrainStructuralProbeRequest:
    """Returns the request of TrainStructuralProbe. Raises InvalidArgument for what can't be sent."""
    parts = {name: _listed(name, texts) for name, texts in (("train", train), ("dev", dev), ("test", test))}
    if not parts["train"]:
        raise invalid_argument("train", "is empty; give texts to train on")
    return TrainStructuralProbeRequest(
        model=model_name("model", model),
        quantity=validation.choice("quantity", quantity, QUANTITIES),
        layers=validation.uint32s("layers", layers),
        rank=0 if rank is None else validation.positive("rank", rank),
        pooling=validation.choice("pooling", pooling, POOLINGS),
        max_epochs=0 if max_epochs is None else validation.positive("max_epochs", max_epochs),
        patience=0 if patience is None else validation.positive("patience", patience),
        seeds=validation.positive("seeds", seeds),
        seed=validation.uint64("seed", seed),
        truncate=validation.flag("truncate", truncate),
        memory_bytes=None if memory_bytes is None else validation.uint64("memory_bytes", memory_bytes),
        interventions=wire.head_interventions(interventions),
        reference_texts=validation.texts("reference_texts", reference_texts),
        **{name: [_message(text) for text in texts] for name, texts in parts.items()},
    )


def _listed(name: str, texts: Texts) -> Sequence[TreeText]:
    given = [texts] if isinstance(texts, TreeText) else list(validation.many(name, texts, "TreeTexts"))
    found = []
    for index, text in enumerate(given):
        if not isinstance(text, TreeText):
            raise invalid_argument(f"{name}[{index}]", f"must be a TreeText, not {type(text).__name__}")
        found.append(text)
    return found


def _message(text: TreeText) -> structural_pb2.TreeText:
    message = structural_pb2.TreeText(input=wire.text_input(text.text))
    for head, span, *punctuation in text.words:
        place = None if span is None else common_pb2.CharacterSpan(start=span[0], end=span[1], segment=(*span, 0)[2])
        message.words.add(head=head, span=place, punctuation=any(punctuation))
    return message


class StructuralProbeAssembler:
    """Reads one TrainStructuralProbe stream: progress, and the result at the end."""

    def add(self, message: TrainStructuralProbeResponse) -> StructuralProbeProgress | StructuralProbeResult | None:
        """Processes one message. Returns its progress, or the result. Raises InvalidReply."""
        event = message.WhichOneof("event")
        if event == "progress":
            stage = wire.enum_name(ProgressMessage.Stage, message.progress.stage, "STAGE_")
            return wire.read(StructuralProbeProgress, message.progress, stage=stage)
        return _result(message.report) if event == "report" else None


def _result(report: StructuralProbeReport) -> StructuralProbeResult:
    tested = report.HasField("test")
    part, scored = (report.test, "test") if tested else (report.dev, "dev")
    if not report.layers or not all(len(layer.probes) == len(layer.projections) > 0 for layer in report.layers):
        raise InvalidReply("the server sent a report of structural probes without scores")
    chain = getattr(report.chain, scored)
    return wire.read(
        StructuralProbeResult,
        report,
        layers=tuple(_layer(layer, part.total, scored) for layer in report.layers),
        quantity=wire.enum_name(TrainStructuralProbeRequest.Quantity, report.quantity, "QUANTITY_"),
        chain_score=chain.correct / max(part.total, 1),
        chain_spearman=chain.spearman,
        scored=scored,
        train=wire.read(TreePart, report.train),
        dev=wire.read(TreePart, report.dev),
        test=wire.read(TreePart, report.test) if tested else None,
        pooling=wire.enum_name(TrainProbeRequest.Pooling, report.pooling, "POOLING_"),
        seeds=tuple(run.seed for run in report.layers[0].probes),
        provenance=wire.provenance(report.provenance),
    )


def _layer(layer: LayerStructuralProbes, total: int, part: str) -> LayerStructuralProbe:
    probes, control = ([getattr(run, part) for run in runs] for runs in (layer.probes, layer.projections))
    shares = [score.correct / max(total, 1) for score in probes]
    return LayerStructuralProbe(
        layer=layer.layer,
        score=float(np.mean(shares)),
        spearman=float(np.mean([score.spearman for score in probes])),
        loss=float(np.mean([score.loss for score in probes])),
        control_score=float(np.mean([score.correct for score in control])) / max(total, 1),
        control_spearman=float(np.mean([score.spearman for score in control])),
        dev_loss=layer.probes[0].dev.loss,
        spread=(min(shares), max(shares)),
        best_epochs=tuple(run.best_epoch for run in layer.probes),
    )
