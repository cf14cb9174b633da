"""The dimensions of the networks that are built, and their encoders with random weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

VOCABULARY = 30_522
"""BERT's vocabulary size; a shape's description names any other."""

SETTINGS: Mapping[str, str] = MappingProxyType(
    {
        "layers": "num_hidden_layers",
        "hidden": "hidden_size",
        "feed_forward": "intermediate_size",
        "heads": "num_attention_heads",
        "vocabulary": "vocab_size",
    }
)
"""Names of the dimensions in a config."""


@dataclass(frozen=True, slots=True)
class Transformer:
    """A shape of one of the supported architectures. Other dimensions are its config's defaults.

    These are 512 positions, and for MobileBERT bottlenecks of 128 units and four feed-forward networks in a layer.
    """

    architecture: str
    layers: int
    hidden: int
    feed_forward: int
    heads: int
    vocabulary: int = VOCABULARY

    @property
    def settings(self) -> dict[str, object]:
        """The settings for the architecture's config."""
        renamed = {"feed_forward": "hidden_dim"} if self.architecture == "distilbert" else {}
        return {{**SETTINGS, **renamed}[name]: getattr(self, name) for name in SETTINGS}

    def __str__(self) -> str:
        other = "" if self.vocabulary == VOCABULARY else f", vocabulary {self.vocabulary:,}"
        layers = f"{self.layers} layer{'s' * (self.layers != 1)}"
        return f"{self.architecture}, {layers} x {self.hidden}, {self.heads} heads{other}"


@dataclass(frozen=True, slots=True)
class Recurrent:
    """A bidirectional LSTM; see encoders.bilstm.Bilstm."""

    vocabulary: int = VOCABULARY
    embedding: int = 300
    units: int = 150
    classifier: int = 400
    labels: int = 2

    def __str__(self) -> str:
        return f"bilstm, 1 layer of 2 x {self.units} over embeddings of {self.embedding}, {self.classifier} in the classifier"
