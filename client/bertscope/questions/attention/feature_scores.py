"""Scores how heads attend to words with a feature: the reply of ScoreFeatures, and the sum of several."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bertscope.questions.attention.sums import HeadSums, PerHead
from bertscope.values.display import data_frame, record, table_html
from bertscope.values.merging import added_by_name, require_same, same_weights
from bertscope.values.results import Provenance

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["FeatureScore", "FeatureScores"]


@record(eq=False)
class FeatureScore:
    """The scores of one feature, summed over the texts that have it."""

    feature: str
    """Its name."""
    attention: HeadSums
    """The largest mean weight of a column with the feature; Kovaleva et al. 2019, section 4.4."""
    from_first_special: HeadSums
    """The largest weight from the first special token to a token with the feature; section 4.5."""

    def __add__(self, other: FeatureScore) -> FeatureScore:
        sums = self.attention + other.attention, self.from_first_special + other.from_first_special
        return FeatureScore(self.feature, *sums)


@dataclass(frozen=True, eq=False, repr=False)
class FeatureScores:
    """The scores of features, by name. Compared by identity, as numpy arrays have no truth value."""

    layers: int
    """Layers of the model."""
    heads: int
    """Heads of a layer."""
    texts: int
    """The texts scored."""
    features: Mapping[str, FeatureScore]
    """The scores by the name of the feature; in the order given, or as the features first came, special tokens last."""
    provenance: Provenance
    """Provenance of the numbers."""

    def __repr__(self) -> str:
        asked = f"{len(self.features)} features, {self.texts} texts"
        return f"<FeatureScores: {asked}, {self.layers} x {self.heads} heads, {self.provenance.model}>"

    def __getitem__(self, feature: str) -> FeatureScore:
        if feature not in self.features:
            raise KeyError(f"no text has the feature {feature!r}; there are {', '.join(self.features)}")
        return self.features[feature]

    def attention(self, feature: str) -> PerHead:
        """Returns [layers, heads]: the mean over texts of the attention to a feature, 0 to 1; NaN if no text has it."""
        return self[feature].attention.mean()

    def from_first_special(self, feature: str) -> PerHead:
        """Returns [layers, heads]: the mean over texts of the attention of the first special token to a feature, 0 to 1."""
        return self[feature].from_first_special.mean()

    @classmethod
    def merge(cls, parts: Iterable[FeatureScores]) -> FeatureScores:
        """Returns the scores of all texts of the parts, the same as of one call with them all; features merge by name.

        Raises InvalidArgument without a part, FailedPrecondition for models with other weights.
        """
        parts = [*parts]
        source = same_weights(part.provenance for part in parts)
        require_same(parts, ("layers", "heads"))
        merged = added_by_name(part.features for part in parts)
        return cls(parts[0].layers, parts[0].heads, sum(part.texts for part in parts), merged, source)

    def _repr_html_(self) -> str | None:
        return table_html(self)

    def to_pandas(self) -> pd.DataFrame:
        """Returns a row for each feature, layer and head: feature, layer, head, texts, attention, attention_error,
        from_first_special, from_first_special_error, where errors are standard errors. Needs the extra "pandas"."""
        return data_frame(feature_columns(self))


def feature_columns(scores: FeatureScores) -> dict[str, npt.NDArray[Any]]:
    """Returns the columns of `FeatureScores.to_pandas`; needs no pandas."""
    layer, head = np.indices((scores.layers, scores.heads)).reshape(2, -1)
    parts: list[dict[str, npt.NDArray[Any]]] = [
        {
            "feature": np.full(layer.size, name, object),
            "layer": layer,
            "head": head,
            "texts": np.full(layer.size, score.attention.texts),
            "attention": score.attention.mean().reshape(-1),
            "attention_error": score.attention.standard_error().reshape(-1),
            "from_first_special": score.from_first_special.mean().reshape(-1),
            "from_first_special_error": score.from_first_special.standard_error().reshape(-1),
        }
        for name, score in scores.features.items()
    ]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]} if parts else {}
