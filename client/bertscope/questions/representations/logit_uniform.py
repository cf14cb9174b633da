"""Declares the calls that take predictions apart: `attribute_logits`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, SupportsIndex

from bertscope.questions.representations.attribution import (
    Answers,
    LogitAttribution,
    LogitAttributions,
    asked_attributions,
    read_attributions,
    text_of_attributed,
)
from bertscope.rpc.uniform import each
from bertscope.values.validation import TextOrPair


class LogitCalls(Protocol):
    """The methods of `AsyncClient` that take predictions apart."""

    @each(asked_attributions, read_attributions, LogitAttributions, text=text_of_attributed, order="mask ablate")
    def attribute_logits(
        self,
        texts: TextOrPair | Iterable[TextOrPair],
        answers: Answers | Iterable[Answers],
        *,
        mask: SupportsIndex | None = None,
    ) -> LogitAttribution:
        """Attributes the difference of two answers' logits at a mask to heads, feed-forward blocks, biases and the embeddings.

        `answers` is a tuple (answer, other answer) for all texts, or one for each; each answer is a single entry of the
        vocabulary. Texts have one mask, or `mask` is the number of theirs, from 0. The terms sum to the difference: layer
        normalisations are frozen at the statistics that they had, and the masked-LM head's activation at its factor. A term is
        what a part adds at the mask itself. With `ablate`, also how much the difference falls when each head is zeroed; that
        runs a text once for each head.

        One answer for each text, in order; `timeout` and `on_rejected` are as in `read_layers`.
        """
