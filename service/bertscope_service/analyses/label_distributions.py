"""The distributions over labels that a head gives a text: one, one for each label, or one for each word."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from bertscope_service.analyses.classification import log_sigmoid, log_softmax
from bertscope_service.analyses.observers.predictions import LabelObserver
from bertscope_service.analyses.observers.token_labels import TokenLabelObserver
from bertscope_service.analyses.token_classification import ReadWords, find_words
from bertscope_service.checkpoints.tokenized_text import TokenizedText
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.encoders.base import Capabilities
from bertscope_service.encoders.observer import Observer
from bertscope_service.errors import InvalidArgument


class Labelling(Enum):
    """A head's labels: one holds for a text, or each may, or one holds for a word."""

    TEXTS = "texts"
    SETS = "sets"
    WORDS = "words"

    def choices(self, labels: Sequence[str]) -> int:
        """Returns the number of outcomes of a distribution: the labels, or that one holds and that it does not."""
        return 2 if self is Labelling.SETS else len(labels)

    def places(self, observer: Observer, labels: Sequence[str]) -> int:
        """Returns the number of distributions that an observer of `label_observers` reads."""
        if isinstance(observer, TokenLabelObserver):
            return len(observer.positions)
        return len(labels) if self is Labelling.SETS else 1

    def logs(self, scores: NDArray[np.float32]) -> NDArray[np.float64]:
        """Converts the scores of a text, [labels] or [words, labels], to log-probabilities [places, choices]. Raises
        FailedPrecondition if they are not finite."""
        if self is Labelling.SETS:
            return np.stack([log_sigmoid([scores])[0], log_sigmoid([-scores])[0]], axis=1)
        return log_softmax(np.atleast_2d(scores))


def labelling_of(capabilities: Capabilities) -> Labelling | None:
    """Returns how a model's head labels texts; None for one without labels, or whose words are not all read."""
    if capabilities.token_classification and not capabilities.drops_tokens:
        return Labelling.WORDS
    if capabilities.multi_label:
        return Labelling.SETS
    return Labelling.TEXTS if capabilities.classification else None


def label_observers(
    labelling: Labelling, texts: Sequence[TokenizedText], tokenizers: Sequence[TextTokenizer], field: str
) -> list[Observer]:
    """Returns the observer of each model for the same text, which each has tokenized.

    Of words, those that all models read at the same place of the text are compared. Raises InvalidArgument if there are none.
    """
    if labelling is not Labelling.WORDS:
        return [LabelObserver() for _ in texts]
    words = [_places(find_words(text, (), tokenizer)) for text, tokenizer in zip(texts, tokenizers, strict=True)]
    common = sorted(set.intersection(*map(set, words)))
    if not common:
        raise InvalidArgument(field, f"{field} has no word that all models read; leave it out", "NO_WORD")
    return [TokenLabelObserver(tuple(own[word] for word in common)) for own in words]


def _places(words: ReadWords) -> dict[tuple[int, int, int], int]:
    """Returns the position of each word's first piece, by the word's segment, start and end."""
    placed = zip(words.words, words.positions, strict=True)
    return {(word.segment, word.start, word.end): place for word, place in placed if place is not None}
