"""Tuned lenses: the request that trains one on the server, how the stream is read, and a lens in a file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsIndex, cast

import numpy as np
import numpy.typing as npt

from bertscope._version import __version__
from bertscope.errors import InvalidReply, invalid_argument
from bertscope.questions.representations.lens import NORMALISATIONS, PREFIX
from bertscope.v1 import representation_lens_pb2 as lens_pb2
from bertscope.v1.representation_probes_pb2 import ProbeProgress as ProgressMessage
from bertscope.v1.representation_tuned_lens_pb2 import (
    TrainLensReport,
    TrainLensRequest,
    TrainLensResponse,
    TranslatorChunk,
)
from bertscope.values import messages as wire
from bertscope.values import validation
from bertscope.values.choices import LensNormalisation
from bertscope.values.display import data_frame, record, table_html
from bertscope.values.kept_arrays import finite, kept_file, read_about, read_layers, read_npz, read_versions
from bertscope.values.messages import Interventions, Numbers
from bertscope.values.models import Model, model_name
from bertscope.values.validation import File, TextOrPair

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["LayerFit", "TrainLensProgress", "TunedLens", "load_lens"]

FORMAT = "bertscope tuned lens"
TEXTS = ("normalisation", "model", "weights_digest", "numbering")
COLUMNS = ("layer", "divergence_before", "divergence", "agreement_before", "agreement", "steps")


@record
class TrainLensProgress:
    """The progress of `train_lens`."""

    stage: str
    """"states": the model runs the texts; "training"."""
    done: int
    """Texts that were run, or epochs that were trained."""
    total: int
    """All of them. Training may end before the last epoch."""
    best_dev_divergence: float
    """The mean over layers of the lowest divergence on the dev texts so far, nats; 0 before training."""


@record
class LayerFit:
    """How well a layer is read on the dev texts, with its map and without: there, it is the plain lens."""

    layer: int
    """0 for the embeddings, k for the output of layer k - 1."""
    divergence_before: float
    """Mean of KL(last || this) of the plain lens, nats."""
    divergence: float
    """Mean of KL(last || this) with the map, nats; at most that of the plain lens."""
    agreement_before: float
    """The share of pieces whose likeliest entry is that of the last layer, by the plain lens."""
    agreement: float
    """The same share with the map."""
    steps: int
    """The steps of training that made the map; 0 if none did better than no map, which is kept then."""


@record
class TunedLens:
    """A map for each layer, with which the masked-LM head reads its states (Belrose et al. 2023): it gets state @ matrix +
    biases."""

    maps: Mapping[int, npt.NDArray[np.float32]]
    """By layer (0, the embeddings, to the layers of the model less 1), [hidden_size + 1, hidden_size]: the matrix, and the
    biases as its last row."""
    last_layer: int
    """Number of the last state, which has no map."""
    normalisation: str
    """States that the head got after their map: "none", as they are, or "final", after the model's last normalisation."""
    model: str
    """Name of the model whose states it was trained on, "models/{id}"."""
    weights_digest: str
    """Digest of that model's weights, "sha256:" and 64 hexadecimal digits; "" to use it with any model whose states have their
    size."""
    fits: tuple[LayerFit, ...] = ()
    """How well each layer is read, in ascending order."""
    numbering: str = "zero_based"
    """Numbering of layers."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Version of each library that affected the numbers, by package name."""

    def __post_init__(self) -> None:
        """Raises InvalidArgument for maps of another shape than the others, or without any."""
        if not self.maps:
            raise invalid_argument("maps", "is empty; give the map of at least one layer")
        validation.choice("normalisation", self.normalisation, NORMALISATIONS)
        maps = {layer: np.asarray(values, np.float32) for layer, values in sorted(self.maps.items())}
        size = next(iter(maps.values())).shape[-1:]
        for layer, values in maps.items():
            if not 0 <= layer < self.last_layer:
                raise invalid_argument(f"maps[{layer}]", f"is of no layer before the last state, {self.last_layer}")
            if not size or values.shape != (size[0] + 1, *size):
                raise invalid_argument(
                    f"maps[{layer}]", f"has shape {list(values.shape)}; it must be [hidden_size + 1, hidden_size]"
                )
        object.__setattr__(self, "maps", maps)

    @property
    def layers(self) -> tuple[int, ...]:
        """The layers with a map, ascending."""
        return tuple(self.maps)

    def rows(self) -> list[tuple[Any, ...]]:
        """Returns a row for each layer, with the values of the table's columns."""
        return [tuple(getattr(one, name) for name in COLUMNS) for one in self.fits]

    def to_pandas(self) -> pd.DataFrame:
        """Returns a row for each layer. Needs pandas."""
        return data_frame(self.rows(), list(COLUMNS))

    def _repr_html_(self) -> str | None:
        return table_html(self)

    def save(self, path: File) -> None:
        """Writes the lens to a file of numpy's .npz format. Raises OSError for a file that can't be written."""
        about = {name: getattr(self, name) for name in (*TEXTS, "last_layer")}
        about |= {"format": FORMAT, "fits": [asdict(fit) for fit in self.fits], "versions": dict(self.versions)}
        arrays: dict[str, Any] = {
            "layers": np.array(self.layers, np.int64),
            "maps": np.stack(list(self.maps.values())),
            "about": np.frombuffer(json.dumps(about).encode(), np.uint8),
        }
        with Path(path).open("wb") as file:
            np.savez(file, **arrays)


def load_lens(path: File) -> TunedLens:
    """Reads a lens that `TunedLens.save` wrote; nothing in the file is run. Raises OSError for a file that can't be read, and
    InvalidArgument, naming the file, for one of other contents."""
    whole = "is not a file of a tuned lens; give one that TunedLens.save wrote"
    with Path(path).open("rb") as file, kept_file(path, "holds no lens that can be used", whole):
        found = read_npz(file, ("layers", "maps", "about"))
        layers, maps, about = read_layers(found["layers"]), finite("maps", found["maps"]), read_about(found["about"], FORMAT)
        texts: dict[str, Any] = {name: validation.text(name, about[name]) for name in TEXTS}
        return TunedLens(
            dict(zip(layers, maps, strict=True)),
            validation.uint32("last_layer", about["last_layer"]),
            **texts,
            fits=tuple(_fit(fit) for fit in about["fits"]),
            versions=read_versions(about["versions"]),
        )


def _fit(values: Mapping[str, Any]) -> LayerFit:
    fit = LayerFit(**values)
    for name, value in values.items():
        check = validation.uint32 if name in ("layer", "steps") else validation.number
        check(f"fits.{name}", value)
    return fit


def train_lens_request(
    texts: TextOrPair | Iterable[TextOrPair],
    *,
    dev: TextOrPair | Iterable[TextOrPair],
    model: str | Model | None,
    layers: Numbers | None,
    mask_rate: float | None,
    normalisation: LensNormalisation | None,
    learning_rate: float | None,
    max_epochs: SupportsIndex | None,
    patience: SupportsIndex | None,
    seed: SupportsIndex,
    truncate: bool,
    memory_bytes: SupportsIndex | None,
    interventions: Interventions,
    reference_texts: str | Iterable[str],
) -> TrainLensRequest:
    """Returns the request of TrainLens. Raises InvalidArgument for what can't be sent."""
    train, held_out = _listed("texts", texts), _listed("dev", dev)
    if not train:
        raise invalid_argument("texts", "is empty; give texts to train on")
    chosen = None if normalisation is None else validation.choice("normalisation", normalisation, NORMALISATIONS)
    return TrainLensRequest(
        model=model_name("model", model),
        train=map(wire.text_input, train),
        dev=map(wire.text_input, held_out),
        layers=validation.uint32s("layers", layers),
        mask_rate=None if mask_rate is None else validation.finite_number("mask_rate", mask_rate),
        normalisation=chosen or lens_pb2.LENS_NORMALISATION_UNSPECIFIED,
        learning_rate=None if learning_rate is None else validation.finite_number("learning_rate", learning_rate),
        max_epochs=0 if max_epochs is None else validation.positive("max_epochs", max_epochs),
        patience=0 if patience is None else validation.positive("patience", patience),
        seed=validation.uint64("seed", seed),
        weights=True,
        truncate=validation.flag("truncate", truncate),
        memory_bytes=None if memory_bytes is None else validation.uint64("memory_bytes", memory_bytes),
        interventions=wire.head_interventions(interventions),
        reference_texts=validation.texts("reference_texts", reference_texts),
    )


def _listed(name: str, texts: TextOrPair | Iterable[TextOrPair]) -> Sequence[TextOrPair]:
    pair = isinstance(texts, tuple) and not isinstance(texts, validation.Many) and any(isinstance(one, str) for one in texts)
    given = [texts] if isinstance(texts, str) or pair else validation.many(name, texts, "texts")
    return [validation.text_or_pair(f"{name}[{index}]", cast("Any", text)) for index, text in enumerate(given)]


class TunedLensAssembler:
    """The state of one TrainLens stream: messages in, progress out, and the lens at the end."""

    def __init__(self) -> None:
        self._report: TrainLensReport | None = None
        self._data: dict[int, bytearray] = {}

    def add(self, message: TrainLensResponse) -> TrainLensProgress | TunedLens | None:
        """Processes one message. Returns its progress; the lens, once all of it is there. Raises InvalidReply."""
        event = message.WhichOneof("event")
        if event == "progress":
            stage = wire.enum_name(ProgressMessage.Stage, message.progress.stage, "STAGE_")
            return wire.read(TrainLensProgress, message.progress, stage=stage)
        if event == "report":
            self._report = message.report
            if not self._report.layers or not self._report.dev.pieces:
                raise InvalidReply("the server sent a report of a lens without scores")
            self._data = {layer.layer: bytearray() for layer in self._report.layers}
        elif event == "chunk":
            self._take(message.chunk)
        size = 0 if self._report is None else _map_bytes(self._report)
        whole = all(len(own) == size for own in self._data.values())
        return _lens(self._report, self._data) if whole and self._report is not None else None

    def _take(self, chunk: TranslatorChunk) -> None:
        own = self._data.get(chunk.layer)
        if own is None or self._report is None:
            raise InvalidReply(f"the server sent a part of the map of layer {chunk.layer}, which it did not report")
        if chunk.offset != len(own):
            raise InvalidReply(f"the server sent a part of a map at {chunk.offset} and not at {len(own)}")
        if len(own) + len(chunk.data) > _map_bytes(self._report):
            raise InvalidReply(f"the server sent a map of layer {chunk.layer} that is too large")
        own += chunk.data


def _map_bytes(report: TrainLensReport) -> int:
    return 4 * report.hidden_size * (report.hidden_size + 1)


def _lens(report: TrainLensReport, data: Mapping[int, bytearray]) -> TunedLens:
    size, pieces, source = report.hidden_size, report.dev.pieces, wire.provenance(report.provenance)
    return TunedLens(
        {one.layer: np.frombuffer(data[one.layer], "<f4").astype(np.float32).reshape(size + 1, size) for one in report.layers},
        report.last_layer,
        wire.enum_name(lens_pb2.LensNormalisation, report.normalisation, PREFIX),
        source.model,
        source.weights_digest,
        tuple(
            LayerFit(
                one.layer,
                one.before.divergence,
                one.after.divergence,
                one.before.agreeing / pieces,
                one.after.agreeing / pieces,
                one.steps,
            )
            for one in report.layers
        ),
        source.numbering,
        dict(source.library_versions) | {"bertscope": __version__},
    )
