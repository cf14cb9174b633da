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

        The states stay on the server, which sends sums over texts. `second_moments` are needed for `variance_shares` and
        `effective_rank`.
        """

    @total(asked_inputs, read_comparison, text=text_of)
    def compare_representations(self, inputs: Inputs, other_model: str | Model | None = None) -> RepresentationComparison:
        """Compares the states of each two layers by linear CKA: those of `model`, or of `model` and `other_model`.

        `model` runs untouched. A word has one vector, the mean of its pieces' states. Words that two models cut differently are
        joined until both agree. A text of fewer than four words is not compared. The states stay on the server, which sends
        sums over texts.
        """
