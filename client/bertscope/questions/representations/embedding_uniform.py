"""Declares the calls for vectors of texts: `embed_texts`."""

from __future__ import annotations

from typing import Protocol

from bertscope.questions.representations.embeddings import EmbeddedText, EmbeddedTexts, read_embedded_texts
from bertscope.rpc.uniform import each
from bertscope.values.choices import StatePooling
from bertscope.values.messages import Inputs, asked_inputs


class EmbeddingCalls(Protocol):
    """The methods of `AsyncClient` that make vectors of texts."""

    @each(asked_inputs, read_embedded_texts, EmbeddedTexts)
    def embed_texts(self, inputs: Inputs, *, pooling: StatePooling | None = None) -> EmbeddedText:
        """Makes one vector of each text or pair: the states of its tokens in the last layer, joined.

        `pooling` is "first", "last", "mean", "max", or "declared": what the model's folder declares for sentence-transformers,
        with its prompt and its most tokens of a text. `vectors` of the result is [texts, size]. Raises Unimplemented for a
        model that shows no hidden states, or declares a pooling that can't be used.
        """
