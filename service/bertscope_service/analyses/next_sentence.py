"""The probability that one text follows another, by the head that a model was pre-trained with (Devlin et al. 2019, section
3.1, task 2)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bertscope_service.analyses.classification import log_softmax
from bertscope_service.analyses.observers.predictions import NextSentenceObserver
from bertscope_service.checkpoints.tokenized_text import TokenizedText
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.errors import InvalidArgument


def next_sentence_rows(texts: Sequence[TokenizedText]) -> list[tuple[TokenSequence, NextSentenceObserver]]:
    """Returns the row of each pair.

    Raises InvalidArgument for a pair of which one text holds no token.
    """
    for index, pair in enumerate(texts):
        missing = {0, 1}.difference(pair.encoding.sequence_ids)
        if missing:
            field = f"{'text_pairs' if 1 in missing else 'texts'}[{index}]"
            raise InvalidArgument(field, f"{field} holds no token of this model's vocabulary; write some text", "EMPTY_TEXT")
    observer = NextSentenceObserver()
    return [(pair.sequence, observer) for pair in texts]


def next_sentence_probabilities(scores: Sequence[NDArray[np.float32]]) -> list[float]:
    """Returns the probability of "is next" of each row, of its scores [2]. Raises FailedPrecondition if they are not finite."""
    if not scores:
        return []
    found: list[float] = np.exp(log_softmax(scores))[:, 0].tolist()
    return found
