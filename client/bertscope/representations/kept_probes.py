"""Probes that are kept in a file, to be applied to other texts."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, SupportsIndex

import numpy as np
import numpy.typing as npt

from bertscope import _validation
from bertscope._display import short_repr
from bertscope._version import __version__
from bertscope.errors import InvalidArgument, invalid_argument
from bertscope.files import File
from bertscope.representations.probe_requests import POOLINGS
from bertscope.representations.probes import ProbeResult

FORMAT = "bertscope linear probes"
TEXTS = ("pooling", "model", "weights_digest", "numbering")


@dataclass(frozen=True)
class LinearProbe:
    """Linear probes of one or several layers, with what is needed to apply them: scores of the classes before the softmax are
    states @ weights + biases."""

    __repr__ = short_repr

    labels: tuple[str, ...]
    """The names of the classes."""
    weights: Mapping[int, tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]]
    """By layer (0, the embeddings, to the layers of the model), weights [hidden_size, classes] and biases [classes]."""
    pooling: str
    """How a span's pieces become one vector: "mean", "first" or "last"."""
    model: str
    """Name of the model whose states it was trained on, "models/{id}"."""
    weights_digest: str
    """Digest of that model's weights, "sha256:" and 64 hexadecimal digits."""
    numbering: str = "zero_based"
    """Numbering of layers."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Version of each library that affected the numbers, by package name."""

    def __post_init__(self) -> None:
        """Raises InvalidArgument for weights or biases of another shape than the others, or without a layer."""
        if not self.weights:
            raise invalid_argument("weights", "is empty; train with weights=True")
        _validation.choice("pooling", self.pooling, POOLINGS)
        weights = {layer: tuple(np.asarray(one, np.float32) for one in pair) for layer, pair in sorted(self.weights.items())}
        size = next(iter(weights.values()))[0].shape[:1]
        for layer, (matrix, biases) in weights.items():
            if matrix.shape != (*size, len(self.labels)) or biases.shape != (len(self.labels),):
                shapes = f"{list(matrix.shape)} and {list(biases.shape)}"
                raise invalid_argument(f"weights[{layer}]", f"has shapes {shapes}, for {len(self.labels)} labels")
        object.__setattr__(self, "weights", weights)

    @classmethod
    def of(cls, found: ProbeResult, layers: SupportsIndex | Iterable[SupportsIndex] | None = None) -> Self:
        """Returns the probes of a training with `weights=True`: of some layers, or of all. Raises InvalidArgument for a layer
        whose weights were not sent, and for probes with hidden units or of pairs of spans."""
        wanted = _validation.uint32s("layers", layers) or sorted(found.weights)
        for layer in wanted:
            if layer not in found.weights:
                raise invalid_argument("layers", f"has layer {layer}, whose weights were not sent; train it with weights=True")
            shapes = [array.shape for array in found.weights[layer]]
            if shapes != [(found.hidden_size, len(found.labels)), (len(found.labels),)]:
                problem = "has probes with hidden units or of pairs of spans; only linear ones of single spans are kept"
                raise invalid_argument("found", problem)
        source = found.provenance
        versions = dict(source.library_versions) | {"bertscope": __version__}
        weights = {layer: (found.weights[layer][0], found.weights[layer][1]) for layer in wanted}
        return cls(found.labels, weights, found.pooling, source.model, source.weights_digest, source.numbering, versions)

    @property
    def layers(self) -> tuple[int, ...]:
        """The layers, ascending."""
        return tuple(self.weights)

    @property
    def hidden_size(self) -> int:
        """The length of a state."""
        return len(next(iter(self.weights.values()))[0])

    def save(self, path: File) -> None:
        """Writes the probes to a file of numpy's .npz format. Raises OSError for a file that can't be written."""
        about = {name: getattr(self, name) for name in TEXTS}
        about |= {"format": FORMAT, "labels": list(self.labels), "versions": dict(self.versions)}
        arrays: dict[str, Any] = {
            "layers": np.array(self.layers, np.int64),
            "weights": np.stack([weights for weights, _ in self.weights.values()]),
            "biases": np.stack([biases for _, biases in self.weights.values()]),
            "about": np.frombuffer(json.dumps(about).encode(), np.uint8),
        }
        with Path(path).open("wb") as file:
            np.savez(file, **arrays)


def load_probe(path: File) -> LinearProbe:
    """Reads probes that `LinearProbe.save` wrote; nothing in the file is run. Raises OSError for a file that can't be read, and
    InvalidArgument, naming the file, for one of other contents."""
    try:
        with np.load(Path(path), allow_pickle=False) as file:
            layers, weights, biases = (file[name] for name in ("layers", "weights", "biases"))
            about: Any = json.loads(file["about"].tobytes())
        if about["format"] != FORMAT:
            raise ValueError(about["format"])
        pairs = {int(layer): (own, bias) for layer, own, bias in zip(layers, weights, biases, strict=True)}
        texts: dict[str, Any] = {name: _validation.text(name, about[name]) for name in TEXTS}
        return LinearProbe(
            tuple(_validation.texts("labels", about["labels"])), pairs, **texts, versions=dict(about["versions"])
        )
    except InvalidArgument as error:
        raise invalid_argument(str(path), f"holds no probes that can be applied: {error}") from error
    except (ValueError, KeyError, TypeError, AttributeError, EOFError, zipfile.BadZipFile) as error:
        raise invalid_argument(str(path), "is not a file of probes; give one that LinearProbe.save wrote") from error
