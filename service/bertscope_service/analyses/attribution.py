"""Direct logit attribution: what each head and feed-forward block adds to one answer's logit over another's at a mask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertscope_service.analyses.candidates import spell
from bertscope_service.analyses.lens import require_entry
from bertscope_service.analyses.metrics import Metric
from bertscope_service.analyses.observers.attribution import AttributionObserver, AttributionScores
from bertscope_service.analyses.observers.predictions import LossObserver
from bertscope_service.analyses.observers.targets import EntryTarget
from bertscope_service.analyses.texts import character_before, check_finite, mask_positions, read_inputs
from bertscope_service.checkpoints.entry_words import Word
from bertscope_service.checkpoints.tokenized_text import TokenizedText
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.encoders.base import Shape
from bertscope_service.encoders.observer import Observer
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.errors import InvalidArgument


@dataclass(frozen=True, slots=True)
class AttributedInput:
    """A text or pair, the two answers, and the number of its mask, None for the only one; see bertscope.v1.AttributedInput."""

    text: str
    pair: str | None
    answers: tuple[str, str]
    mask: int | None


@dataclass(frozen=True, slots=True)
class AttributionQuery:
    """An AttributeLogits request; `max_row_tokens` is the maximum number of tokens in all rows."""

    inputs: tuple[AttributedInput, ...]
    ablate: bool
    truncate: bool
    max_row_tokens: int


@dataclass(frozen=True, slots=True, eq=False)
class AttributedText:
    """The tokens of a text, the position of its mask, and both answers."""

    tokenized: TokenizedText
    position: int
    answers: tuple[Word, Word]

    @property
    def ids(self) -> tuple[int, int]:
        """The ids of both answers."""
        return self.answers[0].pieces[0], self.answers[1].pieces[0]


class AttributionPlan:
    """The rows for an AttributeLogits query: one for each text.

    Raises InvalidArgument for a text that is too long, whose mask is not clear, whose answers are not two entries of the
    vocabulary, and for too much work.
    """

    def __init__(self, query: AttributionQuery, tokenizer: TextTokenizer, shape: Shape) -> None:
        self.query, self._tokenizer, self._shape = query, tokenizer, shape
        inputs = [(given.text, given.pair) for given in query.inputs]
        read = read_inputs(tokenizer, inputs, "inputs", truncate=query.truncate)
        self.texts = [
            self._read(f"inputs[{index}]", given, tokenized)
            for index, (given, tokenized) in enumerate(zip(query.inputs, read, strict=True))
        ]
        """The texts, in order."""
        self._check_work()

    def _read(self, field: str, given: AttributedInput, tokenized: TokenizedText) -> AttributedText:
        positions = mask_positions(tokenized, self._tokenizer, field)
        if given.mask is None and len(positions) > 1:
            message = f"{field} has {len(positions)} masks; set its mask, from 0"
            raise InvalidArgument(field, message, "SEVERAL_MASKS")
        number = given.mask or 0
        if number >= len(positions):
            message = f"{field}.mask is {number} and the text has masks 0 to {len(positions) - 1}"
            raise InvalidArgument(f"{field}.mask", message, "MASK_OUT_OF_RANGE")
        before = character_before(tokenized, positions[number])
        first, second = (
            self._answer(f"{field}.{name}", word, before)
            for name, word in zip(("answer", "other_answer"), given.answers, strict=True)
        )
        if first.pieces == second.pieces:
            message = f"{field}.other_answer is the same entry of the vocabulary as the answer; name another"
            raise InvalidArgument(f"{field}.other_answer", message, "SAME_ANSWER")
        return AttributedText(tokenized, positions[number], (first, second))

    def _answer(self, field: str, word: str, before: str) -> Word:
        found = Word(word, spell(word, self._tokenizer, before, field))
        require_entry(found, field)
        return found

    def _check_work(self) -> None:
        rows = 1 + self._shape.layers * self._shape.heads * self.query.ablate
        tokens, most = rows * sum(len(text.tokenized) for text in self.texts), self.query.max_row_tokens
        if tokens > most:
            message = f"inputs make {tokens} tokens of work and this server takes {most} in a request; send them in parts"
            raise InvalidArgument("inputs", message, "TOO_MANY_TOKENS", limit=most)

    @property
    def rows(self) -> Sequence[tuple[TokenSequence, Observer]]:
        """The row of each text, to take apart."""
        return [(text.tokenized.sequence, AttributionObserver(text.position, text.ids)) for text in self.texts]

    @property
    def reply_bytes(self) -> int:
        """Approximate size of the reply, bytes."""
        return len(self.texts) * self._shape.layers * (self._shape.heads + 3) * 16

    @property
    def objective(self) -> LogitDifference:
        """The differences of logits alone, to measure under ablation."""
        return LogitDifference(self.texts)

    def answer(self, results: Sequence[AttributionScores]) -> Sequence[AttributionScores]:
        """Returns the terms of each text. Raises FailedPrecondition for numbers that are not finite."""
        check_finite(array for found in results for array in (found.heads, found.feed_forward, np.array([found.difference])))
        return results


class LogitDifference:
    """The `Objective` of a logit's difference from another; it has no metric, since more of it is neither better nor worse."""

    metrics: tuple[Metric, ...] = ()
    losses: Sequence[LossObserver] = ()
    truncated = skipped = 0

    def __init__(self, texts: Sequence[AttributedText]) -> None:
        self.items = self.pieces = len(texts)
        self.sequences: Sequence[TokenSequence] = [text.tokenized.sequence for text in texts]
        self.observers: Sequence[Observer] = [EntryTarget(text.position, text.ids) for text in texts]

    def later_observers(self, untouched: Sequence[object]) -> Sequence[Observer]:
        return self.observers

    def measure(self, seen: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
        """Returns [1, texts]. Raises FailedPrecondition for numbers that are not finite."""
        found = np.array([seen], dtype=np.float64)
        check_finite([found])
        return found
