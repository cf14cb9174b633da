"""Declares the calls for the geometry of hidden states: `describe_geometry`, `compare_representations`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from bertscope.questions.representations.comparison import RepresentationComparison, read_comparison
from bertscope.questions.representations.geometry import GeometryDescription
from bertscope.questions.representations.geometry_replies import read_geometry
from bertscope.rpc.uniform import total
from bertscope.values.messages import Inputs, asked_inputs, text_of
from bertscope.values.models import Model


class GeometryCalls(Protocol):
    """The methods of `AsyncClient` that describe the geometry of hidden states."""

    @total(asked_inputs, read_geometry, text=text_of)
    def describe_geometry(self, inputs: Inputs, *, words: str | Iterable[str] = ()) -> GeometryDescription:
        """Describes how alike the hidden states of each layer are: of any two words, of the words of a text, of one word.

        The states stay on the server, which sends sums over texts. A tuple of two strings is one pair of texts; a list or a
        generator is any number of texts or pairs. `layers` are all unless given: 0 is the embeddings, k the output of layer
        k - 1. A word has one vector, the mean of its pieces' states, or each piece has one with `pieces`; `special_tokens` have
        vectors only if that is set. `words` are those whose vectors are compared with each other, letter case ignored, 1,000 at
        most. `second_moments` are needed for `variance_shares` and `effective_rank`; each reply has hidden_size^2 * 2 bytes a
        layer more.

        `on_progress` is called after each call with a `TextsProgress`. A text that the server rejects (too long, empty) is an
        error, unless `on_rejected` takes its index and the error: then it is left out.
        """

    @total(asked_inputs, read_comparison, text=text_of)
    def compare_representations(self, inputs: Inputs, other_model: str | Model | None = None) -> RepresentationComparison:
        """Compares the states of each two layers by linear CKA: those of `model`, or of `model` and `other_model`.

        `model` runs untouched, `other_model`, the same one unless given, under the interventions. `layers` are all unless set,
        0 is the embeddings; so are `other_layers`, or `layers` again within one model. A word has one vector, the mean of its
        pieces' states. Words that two models cut differently are joined until both agree. A text of fewer than four words is
        not compared. The states stay on the server, which sends sums over texts. Inputs, `on_progress` and `on_rejected` are as
        in `describe_geometry`.
        """
