"""Reads questions and their passages: in one row, or in rows of overlapping windows if the passage is long.

A span counts in the window in which its first token has the most context, as in the reference evaluation of BERT (Devlin et al.
2019): the smaller number of passage tokens before and after it there, plus a hundredth of the window's length.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from bertscope_service import cancellation
from bertscope_service.checkpoints.tokenized_text import TokenizedText
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.errors import InvalidArgument

PASSAGE = 1
"""The segment of a pair that is the passage."""
STRIDE = 128


@dataclass(frozen=True, slots=True)
class PassageQuestion:
    """A question and its passage. `field` names it in errors."""

    question: str
    passage: str
    field: str


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """A row that reads a part of a passage.

    first: the passage token that it begins with. offset: the position of that token in the row. owned: bool [tokens of the
    part], True for those that have the most context here.
    """

    sequence: TokenSequence
    first: int
    offset: int
    owned: NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Passage:
    """A passage as the model reads it.

    spans: the code points of each token, int64 [tokens, 2], empty for one that covers no character. tokens: all tokens that are
    read, each once.
    """

    spans: NDArray[np.int64]
    windows: tuple[Window, ...]
    tokens: int


def read_passages(
    tokenizer: TextTokenizer,
    asked: Sequence[PassageQuestion],
    stride: int | None,
    max_tokens: int,
    remedy: str,
    stride_field: str = "stride",
) -> Iterator[Passage]:
    """Tokenizes questions with their passages. stride: see bertscope.v1.AnswerQuestionsRequest; None is the usual one.

    Raises InvalidArgument for a question that is too long, a text without a token, a stride (`stride_field`) that would leave
    tokens out, and, with this remedy, for windows of more than `max_tokens` in all.
    """
    total = 0
    for one in asked:
        cancellation.check()
        whole = tokenizer.encode(one.question, one.passage)
        held = _held(whole, one, tokenizer.max_tokens)
        step = min(STRIDE, max(1, held // 2)) if stride is None else stride
        if _count(whole) > held < step:
            message = f"{stride_field} is {step} and a window of {one.field} holds {held} passage tokens; use 1 to {held}"
            raise InvalidArgument(stride_field, message, "STRIDE_OUT_OF_RANGE", limit=held)
        firsts = _firsts(_count(whole), held, step)
        total += len(whole) if len(firsts) == 1 else len(firsts) * tokenizer.max_tokens
        if total > max_tokens:
            message = f"{one.field}: more than {max_tokens} tokens of work in all windows; {remedy}"
            raise InvalidArgument(one.field, message, "TOO_MANY_TOKENS", limit=max_tokens)
        places = _places(whole)
        spans = np.array([whole.span(place) for place in places], dtype=np.int64)
        if not np.ptp(spans, axis=1).any():
            raise _no_token(f"{one.field}.passage")
        yield Passage(spans, tuple(_windows(whole, firsts, held)), len(whole))


def _places(whole: TokenizedText) -> list[int]:
    return [place for place, which in enumerate(whole.encoding.sequence_ids) if which == PASSAGE]


def _count(whole: TokenizedText) -> int:
    return whole.encoding.sequence_ids.count(PASSAGE)


def _no_token(field: str) -> InvalidArgument:
    return InvalidArgument(field, f"{field} holds no token of this model's vocabulary; write some text", "EMPTY_TEXT")


def _held(whole: TokenizedText, one: PassageQuestion, longest: int) -> int:
    """Returns the number of passage tokens that a window holds."""
    count = _count(whole)
    if not count:
        raise _no_token(f"{one.field}.passage")
    if 0 not in whole.encoding.sequence_ids:
        raise _no_token(f"{one.field}.question")
    around = len(whole) - count
    held = longest - around
    if held < 1:
        message = (
            f"{one.field}.question and the special tokens have {around} tokens and the model reads {longest} with the passage; "
            "shorten it"
        )
        raise InvalidArgument(f"{one.field}.question", message, "TEXT_TOO_LONG", tokens=around, max_tokens=longest)
    return held


def _firsts(count: int, held: int, step: int) -> range:
    """Returns the first token of each window: the last window is the first one that reaches the end."""
    return range(0, max(1, count - held + step), step)


def _windows(whole: TokenizedText, firsts: range, held: int) -> Iterator[Window]:
    ids, segments = np.array(whole.sequence.ids), np.array(whole.sequence.segments)
    places = _places(whole)
    begin, end = places[0], places[-1] + 1
    owners = _owners(len(places), firsts, held)
    for number, first in enumerate(firsts):
        cancellation.check()
        part = slice(begin + first, min(begin + first + held, end))
        kept = np.concatenate([np.arange(begin), np.arange(part.start, part.stop), np.arange(end, len(ids))])
        starts = whole.sequence.starts_at(itemgetter(kept))
        window = TokenSequence(ids[kept], segments[kept], starts)
        yield Window(window, first, begin, owners[first : first + held] == number)


def _owners(count: int, firsts: range, held: int) -> NDArray[np.int64]:
    """Returns the window of each passage token in which it has the most context, the first one of equals."""
    best = np.full(count, -np.inf)
    owners = np.zeros(count, dtype=np.int64)
    for number, first in enumerate(firsts):
        inside = np.arange(min(held, count - first))
        context = np.minimum(inside, len(inside) - 1 - inside) + 0.01 * len(inside)
        part = slice(first, first + len(inside))
        more = context > best[part]
        best[part][more], owners[part][more] = context[more], number
    return owners
