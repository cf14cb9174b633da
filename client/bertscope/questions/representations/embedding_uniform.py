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

        A tuple of two strings is one pair; a list or a generator is any number of texts or pairs, asked as in `fill_mask`.
        `pooling` is "declared", what the model's folder declares for sentence-transformers (its prompt and its most tokens of a
        text as well), unless it declares nothing: "mean" then. Others are "first", "last" and "max". `normalize` divides
        vectors by their length; unset, as the folder declares with "declared", else not. `vectors` of the result is [texts,
        size].
        Raises Unimplemented for a model that shows no hidden states, or declares a pooling that can't be used.

        `on_rejected` takes the index and the error of each text that the server rejects, which is then left out.
        """
