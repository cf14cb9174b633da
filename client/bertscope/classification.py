"""What `classify` gives back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bertscope import _tables
from bertscope.results import Provenance, Results

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class LabelPrediction:
    """One label of a text."""

    label: str
    """Its name in the model's config ("positive", "LABEL_0")."""
    index: int
    """Its index, 0 to the number of labels - 1."""
    probability: float
    """0 to 1: softmax over all labels."""
    logit: float
    """The model's score before the softmax."""


@dataclass(frozen=True)
class ClassifiedText:
    """The labels of one text."""

    text: str
    """The text, or the first of a pair."""
    text_pair: str | None
    """The second text of a pair."""
    labels: tuple[LabelPrediction, ...]
    """Every label of the model, likeliest first."""
    tokens: int
    """How many tokens the model read, special tokens included."""
    truncated_tokens: int
    """How many tokens of the text were cut away."""
    provenance: Provenance
    """Where the predictions come from."""

    @property
    def label(self) -> str:
        """Name of the likeliest label."""
        return self.labels[0].label

    def to_pandas(self) -> pd.DataFrame:
        """A row for each label; columns as `ClassifiedTexts.to_pandas`."""
        return _tables.classified_texts([self])


class ClassifiedTexts(Results[ClassifiedText]):
    """The answers of one `classify` call, one for each text or pair, in order."""

    __slots__ = ()

    def to_pandas(self) -> pd.DataFrame:
        """A row for each label: text, text_pair, order (1 is the likeliest), label, index, probability, logit.
        Needs the extra "pandas"."""
        return _tables.classified_texts(self)
