"""Declares the calls that describe and compare attention: `describe_attention`, `compare_attention`."""

from __future__ import annotations

from typing import Protocol

from bertscope.questions.attention.comparison import AttentionComparison, read_comparison
from bertscope.questions.attention.description import AttentionDescription, read_description
from bertscope.rpc.uniform import total
from bertscope.values.choices import Quantity
from bertscope.values.messages import Inputs, asked_inputs, text_of
from bertscope.values.models import Model


class AttentionStatisticsCalls(Protocol):
    """The methods of `AsyncClient` that describe and compare attention."""

    @total(asked_inputs, read_description, text=text_of)
    def describe_attention(self, inputs: Inputs, *, quantity: Quantity = "weights") -> AttentionDescription:
        """Describes what every head attends to: statistics, pattern classes and, if requested, distances between heads.

        The maps stay on the server, which sends sums over texts.
        """

    @total(asked_inputs, read_comparison, text=text_of)
    def compare_attention(self, inputs: Inputs, other_model: str | Model | None = None) -> AttentionComparison:
        """Compares the maps of two models, such as a model and its fine-tuned copy, head by head.

        `model` runs untouched, `other_model` under the interventions. The maps stay on the server, which sends sums over texts.
        """
