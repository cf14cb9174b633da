"""Loss of masked words in texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from bertscope_service.analyses.metrics import Metric
from bertscope_service.analyses.observers.predictions import GoldObserver, GoldScores, LossObserver
from bertscope_service.analyses.texts import check_finite, masked, read_texts, words_of
from bertscope_service.checkpoints.tokenized_text import TokenizedText
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.encoders.observer import Observer
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.errors import InvalidArgument

FIELD = "objective.masked_lm_loss.texts"


@dataclass(frozen=True, slots=True)
class MaskedLmQuery:
    """A query for the loss of masked words; see bertscope.v1.MaskedLmLoss. `mask_share` is over 0, at most 1."""

    metrics: ClassVar[tuple[Metric, ...]] = (Metric.LOSS,)
    has_loss: ClassVar[bool] = True

    texts: tuple[str, ...]
    seed: int
    mask_share: float
    truncate: bool


class MaskedLmObjective:
    """One row for each text, in which every piece of the chosen words is a mask.

    Only `seed` and the text's index choose the words, so that more texts change no other text's masks. Blanks, the caller's
    masks, and words that the vocabulary can't write are never chosen. Raises InvalidArgument for a text that is too long or
    has no other words.
    """

    metrics = MaskedLmQuery.metrics
    skipped = 0

    def __init__(self, query: MaskedLmQuery, tokenizer: TextTokenizer) -> None:
        self.items = len(query.texts)
        sequences, observers = list[TokenSequence](), list[GoldObserver]()
        self.truncated = self.pieces = 0
        for index, tokenized in enumerate(read_texts(tokenizer, query.texts, FIELD, truncate=query.truncate)):
            field = f"{FIELD}[{index}]"
            words = maskable_words(tokenized, tokenizer)
            if not words:
                message = (
                    f"{field} has no word of this model's vocabulary that could be masked; leave it out or write some text"
                )
                raise InvalidArgument(field, message, "NO_WORD")
            chosen = choose(len(words), query.mask_share, query.seed, index)
            places = [place for word in chosen for place in words[word]]
            golds = np.array([[tokenized.sequence.ids[place]] for place in places], dtype=np.int64)
            observers.append(GoldObserver(tuple(places), golds))
            sequences.append(masked(tokenized.sequence, places, tokenizer))
            self.truncated += bool(tokenized.truncated)
            self.pieces += len(places)
        self.sequences: Sequence[TokenSequence] = sequences
        self.observers: Sequence[Observer] = observers
        self.losses: Sequence[LossObserver] = observers

    def later_observers(self, untouched: Sequence[GoldScores]) -> Sequence[Observer]:
        return self.observers

    def measure(self, seen: Sequence[GoldScores]) -> NDArray[np.float64]:
        """Returns [1, texts]: the mean over the masked pieces of -ln P, nats."""
        losses = np.array([-scores.logs.mean(dtype=np.float64) for scores in seen])
        check_finite([losses])
        # Rounding can put the logarithm of a sure guess above 0.
        return losses.clip(min=0.0)[None]


def maskable_words(tokenized: TokenizedText, tokenizer: TextTokenizer) -> list[tuple[int, ...]]:
    """Returns the positions of the pieces of each word that can be predicted."""
    ids, never = tokenized.sequence.ids, {tokenizer.mask_id, tokenizer.unknown_id}
    return [
        word
        for word in words_of(tokenized)
        if not any(ids[place] in never for place in word) and any(np.ptp(tokenized.span(place)) for place in word)
    ]


def choose(words: int, share: float, seed: int, index: int) -> list[int]:
    """Chooses `share` of a text's words to mask, rounded, at least one. Returns their numbers, ascending."""
    count = max(1, round(share * words))
    generator = np.random.default_rng([seed, index])
    return sorted(generator.choice(words, size=count, replace=False).tolist())
