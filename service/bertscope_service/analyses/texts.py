"""Reads an analysis's texts: checks length and content, finds words and masks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertscope_service import cancellation
from bertscope_service.analyses.words import Span
from bertscope_service.checkpoints.flat_texts import FlatTexts, read_flat
from bertscope_service.checkpoints.marked_words import Mark
from bertscope_service.checkpoints.mask_names import MASK
from bertscope_service.checkpoints.tokenized_text import TokenizedText, check_length
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.checkpoints.word_bounds import place_of_base
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.errors import FailedPrecondition, InvalidArgument

GROUP = 256
"""Texts that are tokenized together: enough to pay, and few enough that a corpus takes little memory."""


def join_pairs(texts: Sequence[str], text_pairs: Sequence[str]) -> list[tuple[str, ...]]:
    """Returns texts as TextTokenizer.encode_all takes them, each with its second one unless there are none."""
    return list(zip(texts, text_pairs, strict=True)) if text_pairs else [(text,) for text in texts]


def read_blanks(tokenizer: TextTokenizer, inputs: Sequence[tuple[str, ...]], *, truncate: bool, reserve: int = 0) -> FlatTexts:
    """Tokenizes texts and pairs with masks, number i named texts[i]. One that is cut leaves room for `reserve` more tokens.

    Raises InvalidArgument for one that is too long.
    """
    longest = tokenizer.max_tokens
    texts = read_flat(tokenizer, inputs, truncate=truncate, reserve=min(reserve, longest // 2))
    for index, sequence in enumerate(texts.sequences):
        if len(sequence) > longest:
            check_length(texts[index], f"texts[{index}]", longest)
    return texts


def masks_of(texts: FlatTexts, tokenizer: TextTokenizer, *, needed: bool) -> list[tuple[int, ...]]:
    """Returns the positions of each text's masks; see mask_positions."""
    return [
        positions or mask_positions(texts[index], tokenizer, f"texts[{index}]", needed=needed)
        for index, positions in enumerate(texts.masks)
    ]


def read_texts(
    tokenizer: TextTokenizer, texts: Sequence[str], field: str, part: str = "", *, truncate: bool
) -> Iterator[TokenizedText]:
    """Tokenizes texts; errors call number i `field`[i]`part`. Raises InvalidArgument, in its turn, for one that is too long."""
    for index, tokenized in enumerate(_encode(tokenizer, [(text,) for text in texts], truncate=truncate)):
        check_length(tokenized, f"{field}[{index}]{part}", tokenizer.max_tokens)
        yield tokenized


def read_inputs(
    tokenizer: TextTokenizer,
    inputs: Sequence[tuple[str, str | None]],
    field: str,
    part: str = "",
    *,
    truncate: bool | None,
    words: Sequence[Sequence[Span]] | None = None,
) -> Iterator[TokenizedText]:
    """Tokenizes each bertscope.v1.TextInput, as read_texts does; `truncate` is None if the request has no such field, `words`
    are those that the caller marked in each.

    Raises InvalidArgument, in its turn, for one that is too long or holds no token.
    """
    fields = (f"{field}[{index}]{part}" for index in range(len(inputs)))
    return read_named_inputs(tokenizer, inputs, fields, truncate=truncate, words=words)


def read_named_inputs(
    tokenizer: TextTokenizer,
    inputs: Sequence[tuple[str, str | None]],
    fields: Iterable[str],
    *,
    truncate: bool | None,
    reserve: int = 0,
    words: Sequence[Sequence[Span]] | None = None,
) -> Iterator[TokenizedText]:
    """Does the same as `read_inputs` for inputs with a field each, which leave room for `reserve` more tokens."""
    texts = [(text,) if pair is None else (text, pair) for text, pair in inputs]
    marks = None if words is None else [[(span.segment, span.start, span.end) for span in spans] for spans in words]
    read = _encode(tokenizer, texts, truncate=bool(truncate), reserve=reserve, words=marks)
    for tokenized, field in zip(read, fields, strict=True):
        yield _checked(tokenized, tokenizer.max_tokens - reserve, field, truncate)


def read_input(tokenizer: TextTokenizer, text: str, pair: str | None, field: str, *, truncate: bool | None) -> TokenizedText:
    """Tokenizes one bertscope.v1.TextInput; see read_inputs."""
    return _checked(tokenizer.encode(text, pair, truncate=bool(truncate)), tokenizer.max_tokens, field, truncate)


def read_sequences(
    tokenizer: TextTokenizer, inputs: Sequence[tuple[str, str | None]], field: str, *, truncate: bool
) -> FlatTexts:
    """Does the same as `read_inputs` for texts of which no more than the tokens is asked."""
    read = read_flat(tokenizer, [(text,) if pair is None else (text, pair) for text, pair in inputs], truncate=truncate)
    around = [tokenizer.special_tokens(pair=pair) for pair in (False, True)]
    for index, (sequence, (_, pair)) in enumerate(zip(read.sequences, inputs, strict=True)):
        if not around[pair is not None] < len(sequence) <= tokenizer.max_tokens:
            _checked(read[index], tokenizer.max_tokens, f"{field}[{index}]", truncate)
    return read


def _checked(tokenized: TokenizedText, max_tokens: int, field: str, truncate: bool | None) -> TokenizedText:
    check_length(tokenized, field, max_tokens, cuttable=truncate is not None)
    if all(which is None for which in tokenized.encoding.sequence_ids):
        message = f"{field} holds no token of this model's vocabulary; write some text"
        raise InvalidArgument(f"{field}.text", message, "EMPTY_TEXT")
    return tokenized


def _encode(
    tokenizer: TextTokenizer,
    texts: Sequence[tuple[str, ...]],
    *,
    truncate: bool,
    reserve: int = 0,
    words: Sequence[Sequence[Mark]] | None = None,
) -> Iterator[TokenizedText]:
    for begin in range(0, len(texts), GROUP):
        part = slice(begin, begin + GROUP)
        marks = None if words is None else words[part]
        for tokenized in tokenizer.encode_all(texts[part], truncate=truncate, reserve=reserve, words=marks):
            cancellation.check()
            yield tokenized


def mask_positions(tokenized: TokenizedText, tokenizer: TextTokenizer, field: str, *, needed: bool = True) -> tuple[int, ...]:
    """Returns the positions of a text's masks, or those of a pair; at least one if they are `needed`. Raises InvalidArgument if
    there are none, or none are left after cutting."""
    if tokenized.places is not None:
        found = tuple(tokenized.places)
    else:
        found = tuple([place for place, token in enumerate(tokenized.sequence.ids) if token == tokenizer.mask_id])
    if found:
        return found
    names = (MASK, tokenizer.mask_token or MASK)
    if not needed and not any(name in text for name in names for text in tokenized.texts):
        return ()
    if tokenized.truncated:
        where = "back" if tokenizer.cut_start else "forward"
        message = f"{field} has no mask left after cutting {tokenized.truncated} tokens; move the mask {where}"
        raise InvalidArgument(field, message, "MASK_TRUNCATED")
    own = "" if tokenizer.mask_token == MASK else f" (or {tokenizer.mask_token})"
    raise InvalidArgument(field, f"{field} has no mask; write [MASK]{own} where a word is asked for", "NO_MASK")


def masked(sequence: TokenSequence, places: Sequence[int], tokenizer: TextTokenizer) -> TokenSequence:
    """Returns the sequence with masks at some places. The tokenizer must have a mask token."""
    if tokenizer.mask_id is None:
        raise ValueError("the tokenizer has no mask token")
    ids = list(sequence.ids)
    for place in places:
        ids[place] = tokenizer.mask_id
    return sequence.with_ids(ids)


def with_masks(sequence: TokenSequence, position: int, length: int) -> TokenSequence:
    """Returns a sequence with `length` masks in place of the one at `position`."""
    repeats = np.where(np.arange(len(sequence)) == position, length, 1)
    widened = sequence.starts_at(partial(np.repeat, repeats=repeats, axis=0))
    return TokenSequence(np.repeat(sequence.ids, repeats), np.repeat(sequence.segments, repeats), widened)


def character_before(tokenized: TokenizedText, position: int) -> str:
    """Returns the character before a token; see `character_at`."""
    return character_at(tokenized.texts[tokenized.segment(position)], tokenized.span(position)[0])


def character_at(text: str, end: int) -> str:
    """Returns the last character before a place, with the marks and the invisible characters behind it, for
    TextTokenizer.pieces_in_context: "" at the start of a text, " " for any blank."""
    before = text[max(0, place_of_base(text, end)) : end]
    return " " if before.isspace() else before


def words_of(tokenized: TokenizedText) -> list[tuple[int, ...]]:
    """Returns the positions of the pieces of each word (bertscope.v1.Token.word), in order; special tokens belong to none."""
    columns = enumerate(zip(tokenized.encoding.sequence_ids, tokenized.words, strict=True))
    return [
        tuple(place for place, _ in pieces)
        for (which, word), pieces in groupby(columns, key=lambda column: column[1])
        if which is not None and word is not None
    ]


def check_finite(arrays: Iterable[NDArray[np.floating[Any]]], what: str = "scores", reason: str = "SCORES_NOT_FINITE") -> None:
    """Raises FailedPrecondition if a model's numbers are not finite: it overflowed, or its weights are broken. `what` names
    them."""
    if not all(np.isfinite(array).all() for array in arrays):
        message = (
            f"the model's {what} are not finite in this precision or under these interventions; "
            "load it in fp32 or bf16, or use smaller scales"
        )
        raise FailedPrecondition(message, reason)
