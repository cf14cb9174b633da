"""Compares the attention of two models head by head: the request of CompareAttention, its replies and their sum."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bertscope.errors import InvalidReply
from bertscope.questions.attention.description import STATISTIC, STATISTICS
from bertscope.questions.attention.sums import HeadSums, PerHead, head_sums
from bertscope.v1 import attention_statistics_pb2 as statistics_pb2
from bertscope.values import validation
from bertscope.values.display import data_frame, table_html
from bertscope.values.merging import added, added_by_name, require_same, same_weights
from bertscope.values.messages import Interventions, enum_name, head_interventions, provenance
from bertscope.values.models import Model, model_name
from bertscope.values.results import Provenance

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["AttentionComparison"]


@dataclass(frozen=True, eq=False, repr=False)
class AttentionComparison:
    """How the attention of two models differs, summed over texts. Compared by identity, as numpy arrays have no truth value."""

    layers: int
    """Layers of both models."""
    heads: int
    """Heads of a layer."""
    texts: int
    """The texts or pairs compared."""
    tokens: int
    """Their tokens together, special tokens included."""
    truncated_texts: int
    """The texts that were cut."""
    cosine: HeadSums
    """Cosine of the two flattened maps of a head, 0 to 1; Kovaleva et al. 2019, section 4.3."""
    divergence: HeadSums
    """Jensen-Shannon divergence between the rows of a head's two maps, nats, 0 to ln 2."""
    differences: Mapping[str, HeadSums]
    """The statistics of `AttentionDescription` by name, those of the second model minus those of the first."""
    provenance: Provenance
    """Provenance of the first model's maps."""
    other_provenance: Provenance
    """Provenance of the second model's."""

    def __repr__(self) -> str:
        asked = f"{self.layers} x {self.heads} heads, {self.texts} texts, {self.tokens} tokens"
        return f"<AttentionComparison: {asked}, {self.models}>"

    @property
    def models(self) -> str:
        """The names of both models, or of the one that is compared with itself under interventions."""
        first, other = self.provenance, self.other_provenance
        if (first.model, first.weights_digest) == (other.model, other.weights_digest):
            return f"{first.model}, untouched and under interventions"
        return f"{first.model} and {other.model}"

    def difference(self, statistic: str) -> PerHead:
        """Returns [layers, heads]: the mean difference of a statistic over the texts that have it. Raises KeyError for one that
        none has."""
        if statistic not in self.differences:
            raise KeyError(f"no text has the statistic {statistic!r}; there are {', '.join(self.differences)}")
        return self.differences[statistic].mean()

    @classmethod
    def merge(cls, parts: Iterable[AttentionComparison]) -> AttentionComparison:
        """Returns the comparison over all texts of the parts, the same as of one call with them all.

        Raises InvalidArgument without a part, or for parts with other layers or heads, FailedPrecondition for models with other
        weights.
        """
        parts = [*parts]
        source = same_weights(part.provenance for part in parts)
        other = same_weights(part.other_provenance for part in parts)
        require_same(parts, ("layers", "heads"))
        return cls(
            layers=parts[0].layers,
            heads=parts[0].heads,
            differences=added_by_name((part.differences for part in parts), STATISTICS),
            provenance=source,
            other_provenance=other,
            **added(parts, ("texts", "tokens", "truncated_texts", "cosine", "divergence")),
        )

    def _repr_html_(self) -> str | None:
        return table_html(self)

    def to_pandas(self) -> pd.DataFrame:
        """Returns a row for each head: layer, head, texts; cosine and divergence, and the difference of each statistic
        ("entropy"), each with its standard error ("cosine_error"). Needs the extra "pandas"."""
        return data_frame(comparison_columns(self))


def comparison_columns(comparison: AttentionComparison) -> dict[str, npt.NDArray[Any]]:
    """Returns the columns of `AttentionComparison.to_pandas`; needs no pandas."""
    layer, head = np.indices((comparison.layers, comparison.heads)).reshape(2, -1)
    columns: dict[str, npt.NDArray[Any]] = {"layer": layer, "head": head, "texts": np.full(layer.size, comparison.texts)}
    for name, sums in _numbers(comparison).items():
        columns[name] = sums.mean().reshape(-1)
        columns[f"{name}_error"] = sums.standard_error().reshape(-1)
    return columns


def comparison_document(comparison: AttentionComparison) -> dict[str, Any]:
    """Returns the comparison in JSON types: arrays are [layers, heads]."""
    counts = {name: getattr(comparison, name) for name in ("layers", "heads", "texts", "tokens", "truncated_texts")}
    numbers = {
        name: {"texts": sums.texts, "mean": sums.mean().tolist(), "standard_error": sums.standard_error().tolist()}
        for name, sums in _numbers(comparison).items()
    }
    similarity = {name: numbers.pop(name) for name in ("cosine", "divergence")}
    sources = {name: dataclasses.asdict(getattr(comparison, name)) for name in ("provenance", "other_provenance")}
    return counts | similarity | {"differences": numbers} | sources


def _numbers(comparison: AttentionComparison) -> dict[str, HeadSums]:
    return {"cosine": comparison.cosine, "divergence": comparison.divergence, **comparison.differences}


def compare_attention_request(
    *,
    model: str | Model | None,
    other_model: str | Model | None,
    punctuation: str | Iterable[str] | None,
    interventions: Interventions,
    reference_texts: str | Iterable[str],
    truncate: bool,
) -> statistics_pb2.CompareAttentionRequest:
    """Returns the request of CompareAttention, without its inputs."""
    marks = None if punctuation is None else validation.not_empty("punctuation", validation.texts("punctuation", punctuation))
    return statistics_pb2.CompareAttentionRequest(
        model=model_name("model", model),
        other_model=model_name("other_model", other_model),
        punctuation=marks,
        interventions=head_interventions(interventions),
        reference_texts=validation.texts("reference_texts", reference_texts),
        truncate=validation.flag("truncate", truncate),
    )


def read_comparison(message: statistics_pb2.CompareAttentionResponse) -> AttentionComparison:
    """Returns the comparison of the texts of one call. Raises InvalidReply for a reply that breaks the contract."""
    shape = message.layers, message.heads
    differences = {}
    for each in message.differences:
        name = enum_name(statistics_pb2.AttentionStatistic, each.statistic, STATISTIC)
        differences[name] = head_sums(each.sums, shape, name)
    if len(differences) != len(message.differences):
        raise InvalidReply("the server sent a statistic twice")
    return AttentionComparison(
        layers=message.layers,
        heads=message.heads,
        texts=message.texts,
        tokens=message.tokens,
        truncated_texts=message.truncated_texts,
        cosine=head_sums(message.cosine, shape, "the cosine"),
        divergence=head_sums(message.divergence, shape, "the divergence"),
        differences=differences,
        provenance=provenance(message.provenance),
        other_provenance=provenance(message.other_provenance),
    )
