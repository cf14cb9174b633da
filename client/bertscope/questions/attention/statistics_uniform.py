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

        The maps stay on the server, which sends sums over texts. A tuple of two strings is one pair of texts; a list or a
        generator is any number of texts or pairs, asked as in `fill_mask`. `layers` are all unless given, `punctuation` "." and
        "," (vocabulary entries as texts write them). `head_distances` takes time proportional to the square of the number of
        heads. `quantity` is as in `extract_attention`, any but "value_zeroing"; rows of norms are divided by their sums.

        `on_progress` is called after each call with a `TextsProgress`. A text that the server rejects (too long, empty) is an
        error, unless `on_rejected` takes its index and the error: then it is left out.
        """

    @total(asked_inputs, read_comparison, text=text_of)
    def compare_attention(self, inputs: Inputs, other_model: str | Model | None = None) -> AttentionComparison:
        """Compares the maps of two models, such as a model and its fine-tuned copy, head by head.

        `model` runs untouched, `other_model` under the interventions; without `other_model` it is the same model, which needs
        interventions then. Both need the same vocabulary, layers and heads. The maps stay on the server, which sends sums over
        texts. Inputs, `punctuation`, `on_progress` and `on_rejected` are as in `describe_attention`.
        """
