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

        The terms sum to the difference: layer normalisations are frozen at the statistics that they had, and the masked-LM
        head's activation at its factor. A term is what a part adds at the mask itself. One answer for each text, in order.

        Arguments:
            texts: Any number of texts or pairs, each with a mask.
            answers: A tuple (answer, other answer) for all texts, or one for each; each answer is a single entry of the
                vocabulary.
            mask: The number of the mask in each text, from 0; None means the only one.
            ablate: True: also measure how much the difference falls when each head is zeroed, which runs a text once for each
                head.
        """
