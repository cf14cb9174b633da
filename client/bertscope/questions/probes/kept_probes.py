"""Probes that are kept in a file, to be applied to other texts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Self, SupportsIndex

import numpy as np
import numpy.typing as npt

from bertscope._version import __version__
from bertscope.errors import invalid_argument
from bertscope.questions.probes.probe_messages import POOLINGS
from bertscope.questions.probes.probes import ProbeResult
from bertscope.questions.probes.regression import RegressionResult
from bertscope.values import validation
from bertscope.values.changes import SiteDirection
from bertscope.values.display import record
from bertscope.values.kept_arrays import finite, kept_file, read_about, read_layers, read_npz, read_versions, write_npz
from bertscope.values.validation import File

__all__ = ["KeptProbe", "load_probe"]

FORMAT = "bertscope probes"
TEXTS = ("pooling", "model", "weights_digest", "numbering")
ARRAYS = ("weights", "biases", "output_weights", "output_biases")


@record
class KeptProbe:
    """The probes of one or several layers, with what is needed to apply them: scores of the classes before the softmax are
    states @ weights + biases, or with hidden units relu(states @ weights + biases) @ output_weights + output_biases."""

    labels: tuple[str, ...]
    """The names of the classes; empty for probes of numbers, whose one score is the number."""
    weights: Mapping[int, tuple[npt.NDArray[np.float32], ...]]
    """By layer (0, the embeddings, to the layers of the model), weights [inputs, classes] and biases [classes]; or with hidden
    units weights [inputs, units], biases [units], output weights [units, classes] and output biases [classes]. Inputs are the
    hidden size, or twice that for pairs of spans."""
    pooling: str
    """How a span's pieces become one vector: "mean", "first" or "last"."""
    model: str
    """Name of the model whose states it was trained on, "models/{id}"."""
    weights_digest: str
    """Digest of that model's weights, "sha256:" and 64 hexadecimal digits."""
    pairs: bool = False
    """True if it classifies pairs of spans."""
    numbering: str = "zero_based"
    """Numbering of layers."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Version of each library that affected the numbers, by package name."""

    def __post_init__(self) -> None:
        """Raises InvalidArgument for arrays of other shapes than the first layer's, and without a layer."""
        if not self.weights:
            raise invalid_argument("weights", "is empty; train with weights=True")
        validation.choice("pooling", self.pooling, POOLINGS)
        weights = {layer: tuple(np.asarray(one, np.float32) for one in own) for layer, own in sorted(self.weights.items())}
        first = next(iter(weights.values()))
        inputs, units = first[0].shape[:1], first[1].shape[:1]
        classes = (len(self.labels) or 1,)
        wanted = [inputs + units, units, units + classes, classes] if len(first) > 2 else [inputs + classes, classes]
        for layer, arrays in weights.items():
            validation.uint32(f"weights[{layer}]", layer)
            shapes = [array.shape for array in arrays]
            if shapes != wanted:
                shown = " and ".join(str(list(shape)) for shape in shapes)
                raise invalid_argument(f"weights[{layer}]", f"has shapes {shown}, for {len(self.labels)} labels")
        if self.pairs and len(first[0]) % 2:
            raise invalid_argument("weights", f"has {len(first[0])} inputs; those of pairs of spans are two states long")
        object.__setattr__(self, "weights", weights)

    @classmethod
    def of(cls, found: ProbeResult | RegressionResult, layers: SupportsIndex | Iterable[SupportsIndex] | None = None) -> Self:
        """Returns the probes of a training with `weights=True`: of some layers, or of all; those on mixes of layers are not
        sent. Raises InvalidArgument for a layer whose weights were not sent."""
        wanted = validation.uint32s("layers", layers) or sorted(found.weights)
        for layer in wanted:
            if layer not in found.weights:
                raise invalid_argument("layers", f"has layer {layer}, whose weights were not sent; train it with weights=True")
        source = found.provenance
        versions = dict(source.library_versions) | {"bertscope": __version__}
        weights = {layer: found.weights[layer] for layer in wanted}
        pairs = len(weights[wanted[0]][0]) == 2 * found.hidden_size if wanted else False
        labels = found.labels if isinstance(found, ProbeResult) else ()
        return cls(labels, weights, found.pooling, source.model, source.weights_digest, pairs, source.numbering, versions)

    @property
    def layers(self) -> tuple[int, ...]:
        """The layers, ascending."""
        return tuple(self.weights)

    @property
    def hidden_size(self) -> int:
        """The length of a state."""
        return len(next(iter(self.weights.values()))[0]) // (2 if self.pairs else 1)

    @property
    def hidden_units(self) -> int:
        """The number of hidden units; 0 for linear probes."""
        first = next(iter(self.weights.values()))
        return len(first[1]) if len(first) > 2 else 0

    def direction(self, layer: SupportsIndex, label: str | None = None) -> SiteDirection:
        """Returns the score of a class in a layer as a direction, for `find_contexts`; of a probe of numbers the number.

        Raises InvalidArgument for a layer or class that it does not have, and for probes with hidden units or of pairs, whose
        scores are no products.
        """
        if self.hidden_units or self.pairs:
            raise invalid_argument(
                "probe", "has hidden units, or is of pairs of spans; only linear probes of spans are directions"
            )
        number, name = validation.uint32("layer", layer), label or "number"
        if number not in self.weights:
            raise invalid_argument(
                "layer", f"is {number}, and the file has probes of layers {', '.join(map(str, self.layers))}"
            )
        if (label is None) == bool(self.labels) or (label is not None and label not in self.labels):
            known = f"one of {', '.join(self.labels)}" if self.labels else "none, as it is of numbers"
            raise invalid_argument("label", f"is {label!r}; name {known}")
        weights, biases = self.weights[number]
        column = self.labels.index(label) if label is not None else 0
        return SiteDirection(f"{name}:{number}", number, weights[:, column], bias=float(biases[column]))

    def save(self, path: File) -> None:
        """Writes the probes to a file of numpy's .npz format. Raises OSError for a file that can't be written."""
        about = {name: getattr(self, name) for name in TEXTS}
        about |= {"format": FORMAT, "labels": list(self.labels), "pairs": self.pairs, "versions": dict(self.versions)}
        arrays = {name: np.stack(own) for name, own in zip(ARRAYS, zip(*self.weights.values(), strict=True), strict=False)}
        write_npz(path, about, {"layers": np.array(self.layers, np.int64), **arrays})


def load_probe(path: File) -> KeptProbe:
    """Reads probes that `KeptProbe.save` wrote; nothing in the file is run. Raises OSError for a file that can't be read, and
    InvalidArgument, naming the file, for one of other contents."""
    whole = "is not a file of probes; give one that KeptProbe.save wrote"
    with Path(path).open("rb") as file, kept_file(path, "holds no probes that can be applied", whole):
        found = read_npz(file, ("layers", "about", *ARRAYS))
        layers, about = read_layers(found["layers"]), read_about(found["about"], FORMAT)
        arrays = [finite(name, found[name]) for name in ARRAYS if name in found]
        if len(arrays) not in (2, 4):
            raise ValueError(len(arrays))
        weights = {layer: tuple(own) for layer, *own in zip(layers, *arrays, strict=True)}
        values: dict[str, Any] = {name: validation.text(name, about[name]) for name in TEXTS}
        values |= {"pairs": validation.flag("pairs", about["pairs"]), "versions": read_versions(about["versions"])}
        return KeptProbe(tuple(validation.texts("labels", about["labels"])), weights, **values)
