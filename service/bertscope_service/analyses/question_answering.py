"""Answers to questions: the best spans of a passage, by the sum of the logits of their ends, and how well no answer fits.

As in the reference evaluation of BERT on SQuAD 1.1 and 2.0 (Devlin et al. 2019, sections 4.2 and 4.3); probabilities are over
all spans that may be an answer, and no answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertscope_service import cancellation
from bertscope_service.analyses.observers.answers import AnswerObserver
from bertscope_service.analyses.passages import Passage, PassageQuestion, Window, read_passages
from bertscope_service.analyses.texts import check_finite
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.encoders.sequences import TokenSequence

SMALLEST = 1e-280
"""A larger sum lost nothing to underflow that its rounding would have kept."""
SPAN_BYTES, TEXT_BYTES, TOKEN_BYTES = 32, 48, 40
"""The memory of a span and of a question in a reply, and of the scores of a token while it is made."""


@dataclass(frozen=True, slots=True)
class AnswerQuery:
    """An AnswerQuestions request. `max_row_tokens` is the maximum number of tokens in all windows."""

    inputs: tuple[PassageQuestion, ...]
    best: int
    max_answer_tokens: int
    stride: int | None
    max_row_tokens: int


@dataclass(frozen=True, slots=True)
class ScoredSpan:
    """A span of a passage: code points from `start` to before `end`, its score, and its probability."""

    start: int
    end: int
    score: float
    probability: float


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers to one question: spans, best first; the score of no answer minus the best span's, and its probability."""

    spans: tuple[ScoredSpan, ...]
    no_answer_score: float
    no_answer_probability: float


class AnswerPlan:
    """The rows for an AnswerQuestions query, one for each window, and the search for spans in their scores.

    Raises InvalidArgument for texts that can't be read; see read_passages.
    """

    def __init__(self, query: AnswerQuery, tokenizer: TextTokenizer) -> None:
        self.query = query
        remedy = "send fewer questions at a time, or shorter passages, or use a larger stride"
        self.passages = list(read_passages(tokenizer, query.inputs, query.stride, query.max_row_tokens, remedy))
        observer = AnswerObserver()
        self.rows: list[tuple[TokenSequence, AnswerObserver]] = [
            (window.sequence, observer) for passage in self.passages for window in passage.windows
        ]

    @property
    def reply_bytes(self) -> int:
        """Approximate size of the reply and of the scores it is made from, bytes."""
        scores = TOKEN_BYTES * sum(len(sequence) for sequence, _ in self.rows)
        return len(self.passages) * (TEXT_BYTES + self.query.best * SPAN_BYTES) + scores

    def answers(self, seen: Sequence[NDArray[np.float32]]) -> Iterator[Answers]:
        """Yields the answers to each question. seen: the scores [tokens, 2] of each of `rows`. Raises FailedPrecondition if
        they are not finite."""
        check_finite(seen)
        rows = iter(seen)
        for passage in self.passages:
            scores = [next(rows).astype(np.float64) for _ in passage.windows]
            yield find_answers(passage, scores, self.query.max_answer_tokens, self.query.best)


def find_answers(passage: Passage, scores: Sequence[NDArray[np.float64]], longest: int, best: int) -> Answers:
    """Searches all spans of at most `longest` tokens. scores: of the tokens [tokens, 2] of each window.

    A span begins and ends with tokens that cover a character. Where several of them cover the same characters, as the bytes of
    one do, the best one counts.
    """
    sizes, found = list[float](), list[_Found]()
    for window, logits in zip(passage.windows, scores, strict=True):
        cancellation.check()
        starts, ends = _ends(passage, window, logits, longest)
        tops = starts + ends.max(axis=1)
        if np.isfinite(tops).any():
            sizes.append(_log_of_sum(starts, ends))
            found += _best(passage, window, starts, ends, tops, best)
    none = min(float(logits[0].sum()) for logits in scores)
    total = float(np.logaddexp.reduce([*sizes, none]))
    ranked = sorted(found, key=lambda one: (-one[0], one[1]))
    spans = dict[tuple[int, int], ScoredSpan]()
    for score, (start, end) in ranked:
        if len(spans) == best:
            break
        spans.setdefault((start, end), ScoredSpan(start, end, score, float(np.exp(score - total))))
    difference = none - ranked[0][0]
    return Answers(tuple(spans.values()), difference, float(np.exp(none - total)))


_Found = tuple[float, tuple[int, int]]
"""The score of a span and its code points."""


def _ends(
    passage: Passage, window: Window, logits: NDArray[np.float64], longest: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns the scores of first tokens, [first tokens], and of last ones, [first tokens, further tokens], -inf where there is
    none. The score of a span is their sum."""
    size = len(window.owned)
    covers = np.ptp(passage.spans[window.first : window.first + size], axis=1) > 0
    starts, ends = logits[window.offset : window.offset + size].T
    starts = np.where(covers & window.owned, starts, -np.inf)
    longest = min(longest, size)
    padded = np.concatenate([np.where(covers, ends, -np.inf), np.full(longest - 1, -np.inf)])
    return starts, np.lib.stride_tricks.sliding_window_view(padded, longest)


def _log_of_sum(starts: NDArray[np.float64], ends: NDArray[np.float64]) -> float:
    """Returns the logarithm of the sum of exp(score) of all spans of a window."""
    # One exponential for each token, not for each span.
    first, last = float(starts.max()), float(ends[:, 0].max())
    own, further = np.exp(starts - first), np.exp(ends[:, 0] - last)
    padded = np.concatenate([further, np.zeros(ends.shape[1] - 1)])
    total = float(own @ np.lib.stride_tricks.sliding_window_view(padded, ends.shape[1]).sum(axis=1))
    if total > SMALLEST:
        return first + last + float(np.log(total))
    sums = starts[:, None] + ends
    top = float(sums.max())
    return top + float(np.log(np.exp(sums - top).sum()))


def _best(
    passage: Passage,
    window: Window,
    starts: NDArray[np.float64],
    ends: NDArray[np.float64],
    tops: NDArray[np.float64],
    best: int,
) -> list[_Found]:
    """Returns the best spans of a window, no two of the same characters. tops: the best score of each first token's spans."""
    able, taken = int(np.isfinite(tops).sum()), best
    while True:
        # The best `taken` spans begin with the `taken` first tokens whose best spans are the best.
        firsts = min(taken, able)
        chosen = np.sort(np.argpartition(-tops, firsts - 1)[:firsts])
        sums = starts[chosen, None] + ends[chosen]
        flat = sums.ravel()
        finite = int(np.isfinite(flat).sum())
        count = min(taken, finite)
        top = np.argpartition(-flat, count - 1)[:count]
        found = dict[tuple[int, int], float]()
        for place in top[np.argsort(-flat[top], kind="stable")].tolist():
            row, further = divmod(place, sums.shape[1])
            first = int(chosen[row])
            start, end = passage.spans[window.first + first, 0], passage.spans[window.first + first + further, 1]
            found.setdefault((int(start), int(end)), float(flat[place]))
        if len(found) >= best or (firsts == able and count == finite):
            return [(score, span) for span, score in found.items()]
        taken *= 2
