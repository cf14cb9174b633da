"""Accuracy of filled prompts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from bertscope_service.analyses.metrics import Metric
from bertscope_service.analyses.observers.predictions import GoldObserver, GoldScores, LossObserver
from bertscope_service.analyses.texts import character_before, check_finite, mask_positions, read_texts
from bertscope_service.checkpoints.tokenized_text import TokenizedText
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.encoders.observer import Observer
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.errors import InvalidArgument

FIELD = "objective.cloze.prompts"


@dataclass(frozen=True, slots=True)
class Prompt:
    """A text with one mask, and its gold answers."""

    text: str
    answers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClozePromptsQuery:
    """A query for filled prompts; see bertscope.v1.ClozePrompts."""

    metrics: ClassVar[tuple[Metric, ...]] = (Metric.ACCURACY, Metric.RECIPROCAL_RANK, Metric.LOSS)
    has_loss: ClassVar[bool] = True

    prompts: tuple[Prompt, ...]
    skip_multi_piece: bool
    truncate: bool


class ClozePromptsObjective:
    """One row for each prompt that has an answer of a single piece, as written at the mask; the likeliest answer counts.

    Ranks are among the whole vocabulary (Petroni et al. 2019, section 4.4); ties share the better one. `kept` are the numbers
    of the prompts that have a row. Raises InvalidArgument for a prompt that is too long, has not exactly one mask, or has no
    answer of a single piece, and if no prompt is left.
    """

    metrics = ClozePromptsQuery.metrics

    def __init__(self, query: ClozePromptsQuery, tokenizer: TextTokenizer) -> None:
        texts = read_texts(tokenizer, [prompt.text for prompt in query.prompts], FIELD, ".text", truncate=query.truncate)
        read = [
            _read(f"{FIELD}[{index}]", prompt, tokenized, query, tokenizer)
            for index, (prompt, tokenized) in enumerate(zip(query.prompts, texts, strict=True))
        ]
        self.kept = tuple(index for index, found in enumerate(read) if found is not None)
        kept = [found for found in read if found is not None]
        observers = [observer for _, observer in kept]
        self.sequences: Sequence[TokenSequence] = [tokenized.sequence for tokenized, _ in kept]
        self.observers: Sequence[Observer] = observers
        self.losses: Sequence[LossObserver] = observers
        self.items = self.pieces = len(kept)
        self.skipped = len(read) - len(kept)
        self.truncated = sum(bool(tokenized.truncated) for tokenized, _ in kept)
        if not kept:
            message = (
                f"{FIELD} has no prompt with an answer that is a single piece of this model's vocabulary; give other answers"
            )
            raise InvalidArgument(FIELD, message, "ALL_SKIPPED")

    def later_observers(self, untouched: Sequence[GoldScores]) -> Sequence[Observer]:
        return self.observers

    def measure(self, seen: Sequence[GoldScores]) -> NDArray[np.float64]:
        """Returns [3, prompts]: 1 if the best gold answer is ranked first, 1 / its rank, and its -ln P, nats."""
        ranks = np.array([scores.ranks.min() for scores in seen], dtype=np.float64)
        losses = np.array([-scores.logs.max() for scores in seen], dtype=np.float64)
        check_finite([losses])
        # Rounding can put the logarithm of a sure guess above 0.
        return np.stack([ranks == 1, 1 / ranks, losses.clip(min=0.0)])


def _read(
    field: str, prompt: Prompt, tokenized: TokenizedText, query: ClozePromptsQuery, tokenizer: TextTokenizer
) -> tuple[TokenizedText, GoldObserver] | None:
    """Returns a prompt's tokens and its observer; None if the prompt is to be left out."""
    positions = mask_positions(tokenized, tokenizer, f"{field}.text")
    if len(positions) > 1:
        message = f"{field}.text has {len(positions)} masks; leave one, the gold answers are for a single mask"
        raise InvalidArgument(f"{field}.text", message, "SEVERAL_MASKS")
    before = character_before(tokenized, positions[0])
    spelled = (tokenizer.pieces_in_context(answer, before) for answer in prompt.answers)
    golds = sorted({pieces[0] for pieces in spelled if len(pieces) == 1} - {tokenizer.unknown_id})
    if golds:
        return tokenized, GoldObserver(positions, np.array([golds], dtype=np.int64), ranked=True)
    if query.skip_multi_piece:
        return None
    message = (
        f"{field}.answers has none that is a single piece of this model's vocabulary, so none has a rank; "
        "give another answer, or set skip_multi_piece"
    )
    raise InvalidArgument(f"{field}.answers", message, "NO_SINGLE_PIECE_ANSWER")
