"""Compares the states of layers, of one model or of two: the request of CompareRepresentations, its replies and their sum."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bertscope.errors import InvalidReply
from bertscope.v1 import representation_geometry_pb2 as geometry_pb2
from bertscope.values import validation
from bertscope.values.display import data_frame, table_html
from bertscope.values.merging import added, numbers, require_same, same_weights
from bertscope.values.messages import Interventions, Numbers, head_interventions, provenance
from bertscope.values.models import Model, model_name
from bertscope.values.results import Provenance

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["RepresentationComparison"]

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class RepresentationComparison:
    """How alike the states of each two layers are, summed over texts: `cka`. Compared by identity, as numpy arrays have no
    truth value."""

    layers: tuple[int, ...]
    """Layers of the first model: 0 is the embeddings, k the output of layer k - 1."""
    other_layers: tuple[int, ...]
    """Layers of the second one, which may be the same model."""
    texts: int
    """All texts or pairs."""
    compared_texts: int
    """The texts of four words or more, which are compared."""
    compared_words: int
    """Their words."""
    tokens: int
    """The tokens of all texts as the first model reads them, special tokens included."""
    truncated_texts: int
    """The texts that were cut for either model."""
    shared: Array
    """[layers, other_layers]: the sum over compared texts of HSIC between two layers, of any sign."""
    own: Array
    """[layers]: the sum of HSIC of a layer of the first model with itself."""
    other: Array
    """[other_layers]: the sum of HSIC of a layer of the second one with itself."""
    interventions: bool
    """True if the second model ran under interventions."""
    provenance: Provenance
    """Provenance of the first model's states."""
    other_provenance: Provenance
    """Provenance of the second model's."""

    def __repr__(self) -> str:
        asked = f"{len(self.layers)} x {len(self.other_layers)} layers, {self.compared_texts} texts"
        return f"<RepresentationComparison: {asked}, {self.models}>"

    @property
    def models(self) -> str:
        """The names of both models, or of the one whose layers are compared."""
        first, other = self.provenance, self.other_provenance
        if (first.model, first.weights_digest) != (other.model, other.weights_digest):
            return f"{first.model} and {other.model}" + (" under interventions" if self.interventions else "")
        return f"{first.model}, untouched and under interventions" if self.interventions else first.model

    def cka(self) -> Array:
        """Returns [layers, other_layers]: linear CKA of each two layers, about 0 to 1; 1 for equal states.

        HSIC is the unbiased estimate among the words of a text, averaged over texts (Nguyen, Raghu and Kornblith 2021, section
        2.2, with a text as a minibatch; Kornblith et al. 2019, section 3, for CKA). NaN where a layer's HSIC with itself is not
        above 0, as without a compared text.
        """
        scale = np.outer(np.where(self.own > 0, self.own, np.nan), np.where(self.other > 0, self.other, np.nan))
        return np.asarray(self.shared / np.sqrt(scale))

    @classmethod
    def merge(cls, parts: Iterable[RepresentationComparison]) -> RepresentationComparison:
        """Returns the comparison over all texts of the parts, the same as of one call with them all.

        Raises InvalidArgument without a part, or for parts with other layers, FailedPrecondition for models with other weights.
        """
        parts = [*parts]
        sources = same_weights(part.provenance for part in parts), same_weights(part.other_provenance for part in parts)
        alike = ("layers", "other_layers", "interventions")
        require_same(parts, alike)
        sums = ("texts", "compared_texts", "compared_words", "tokens", "truncated_texts", "shared", "own", "other")
        return cls(
            **{name: getattr(parts[0], name) for name in alike},
            **added(parts, sums),
            provenance=sources[0],
            other_provenance=sources[1],
        )

    def _repr_html_(self) -> str | None:
        return table_html(self)

    def to_pandas(self) -> pd.DataFrame:
        """Returns a row for each two layers: layer, other_layer, texts (those compared), cka. Needs the extra "pandas"."""
        return data_frame(comparison_columns(self))


def comparison_columns(comparison: RepresentationComparison) -> dict[str, npt.NDArray[Any]]:
    """Returns the columns of `RepresentationComparison.to_pandas`; needs no pandas."""
    return {
        "layer": np.repeat(np.array(comparison.layers), len(comparison.other_layers)),
        "other_layer": np.tile(np.array(comparison.other_layers), len(comparison.layers)),
        "texts": np.full(comparison.shared.size, comparison.compared_texts),
        "cka": comparison.cka().ravel(),
    }


def comparison_document(comparison: RepresentationComparison) -> dict[str, Any]:
    """Returns the comparison in JSON types; "cka" is [layers, other_layers], null where there is none."""
    counts = (
        "layers",
        "other_layers",
        "texts",
        "compared_texts",
        "compared_words",
        "tokens",
        "truncated_texts",
        "interventions",
    )
    sources = {name: dataclasses.asdict(getattr(comparison, name)) for name in ("provenance", "other_provenance")}
    return {name: getattr(comparison, name) for name in counts} | {"cka": comparison.cka().tolist()} | sources


def compare_representations_request(
    *,
    model: str | Model | None,
    other_model: str | Model | None,
    layers: Numbers | None,
    other_layers: Numbers | None,
    interventions: Interventions,
    reference_texts: str | Iterable[str],
    truncate: bool,
) -> geometry_pb2.CompareRepresentationsRequest:
    """Returns the request of CompareRepresentations, without its inputs."""
    return geometry_pb2.CompareRepresentationsRequest(
        model=model_name("model", model),
        other_model=model_name("other_model", other_model),
        layers=validation.uint32s("layers", layers),
        other_layers=validation.uint32s("other_layers", other_layers),
        interventions=head_interventions(interventions),
        reference_texts=validation.texts("reference_texts", reference_texts),
        truncate=validation.flag("truncate", truncate),
    )


def read_comparison(
    message: geometry_pb2.CompareRepresentationsResponse, request: geometry_pb2.CompareRepresentationsRequest
) -> RepresentationComparison:
    """Returns the comparison over the texts of one call. Raises InvalidReply for a reply that breaks the contract."""
    layers, others = tuple(message.layers), tuple(message.other_layers)
    if not layers or not others:
        raise InvalidReply("the server compared no layer")
    return RepresentationComparison(
        layers=layers,
        other_layers=others,
        texts=message.texts,
        compared_texts=message.compared_texts,
        compared_words=message.compared_words,
        tokens=message.tokens,
        truncated_texts=message.truncated_texts,
        shared=numbers(message.shared, (len(layers), len(others)), "shared"),
        own=numbers(message.own, (len(layers),), "own"),
        other=numbers(message.other, (len(others),), "other"),
        interventions=bool(request.interventions),
        provenance=provenance(message.provenance),
        other_provenance=provenance(message.other_provenance),
    )
