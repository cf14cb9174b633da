"""Reads many texts of which only the ids and the places of masks are kept.

An encoding says of each token where it stands. That takes some ten times as much memory as the ids, and for a text of 128
tokens 4 us to free. Here encodings are freed in the thread that made them; what else is asked of a text is read again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import accumulate, chain
from typing import overload

import numpy as np
from numpy.typing import NDArray
from tokenizers import Encoding

from bertscope_service.checkpoints.mask_names import MASK
from bertscope_service.checkpoints.tokenized_text import Place, TokenizedText, place, starts
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.checkpoints.word_bounds import is_mark
from bertscope_service.encoders.sequences import TokenSequence


class FlatTexts(Sequence[TokenizedText]):
    """The texts and pairs of a call as the model reads them, in one array. `masks` are the positions of each one's masks,
    `places` where these stand in it, `truncated` the number of its tokens that were cut away. As a sequence, it reads a text
    again for everything else.
    """

    def __init__(self, tokenizer: TextTokenizer, room: int | None) -> None:
        """Texts are cut to `room` tokens, unless that is None."""
        self._tokenizer, self._room = tokenizer, room
        self._inputs = list[tuple[str, ...]]()
        self.sequences = list[TokenSequence]()
        self.masks = list[tuple[int, ...]]()
        self.places = list[tuple[Place, ...]]()
        self.truncated = list[int]()

    def __len__(self) -> int:
        return len(self.sequences)

    @overload
    def __getitem__(self, index: int) -> TokenizedText: ...
    @overload
    def __getitem__(self, index: slice) -> list[TokenizedText]: ...
    def __getitem__(self, index: int | slice) -> TokenizedText | list[TokenizedText]:
        if isinstance(index, slice):
            return [self[one] for one in range(len(self))[index]]
        texts, sequence = self._inputs[index], self.sequences[index]
        places = dict(zip(self.masks[index], self.places[index], strict=True))
        _, moves = self._tokenizer.with_own_mask(texts)
        return TokenizedText(sequence, texts, moves, self.truncated[index], partial(self._encoding, index), places)

    def _encoding(self, index: int) -> Encoding:
        return self._tokenizer.encode_again(self._inputs[index], self._room if self.truncated[index] else None)

    def _starts(self, index: int) -> NDArray[np.int64]:
        texts = self._inputs[index]
        return starts(self._encoding(index), texts, self._tokenizer.with_own_mask(texts)[1])

    def add(self, inputs: Sequence[tuple[str, ...]], characters: int) -> None:
        """Reads further texts and pairs, which become so many `characters`."""
        tokenizer, first = self._tokenizer, len(self)
        self._inputs += inputs
        written = [tokenizer.with_own_mask(texts)[0] for texts in inputs]
        encodings = tokenizer.encode_ids(written, characters)
        lengths, cut = list(map(len, encodings)), dict[int, int]()
        if self._room is not None:
            cut = {index: length - self._room for index, length in enumerate(lengths) if length > self._room}
            for index in cut:
                encodings[index] = tokenizer.cut(written[index], self._room)
                lengths[index] = len(encodings[index])
        self.truncated += [cut.get(index, 0) for index in range(len(inputs))] if cut else [0] * len(inputs)
        ends = list(accumulate(lengths))
        begins = [0, *ends[:-1]]
        ids = _joined([encoding.ids for encoding in encodings], ends[-1])
        if tokenizer.gives_segment_0 and max(map(len, inputs)) == 1:
            segments = np.zeros(len(ids), dtype=np.int64)
        else:
            segments = _joined(list(map(tokenizer.segments, encodings)), ends[-1])
        self.sequences += [
            TokenSequence(ids[begin:end], segments[begin:end], partial(self._starts, index))
            for index, (begin, end) in enumerate(zip(begins, ends, strict=True), first)
        ]
        masks = list(_positions((ids == tokenizer.mask_id).nonzero()[0].tolist(), begins, ends))
        self.masks += masks
        for index, (texts, positions) in enumerate(zip(inputs, masks, strict=True)):
            located = index in cut or not tokenizer.finds_masks
            places = None if located else written_masks(texts)
            if places is None or len(places) != len(positions):
                encoding = encodings[index] if located else self._encoding(first + index)
                moves = tokenizer.with_own_mask(texts)[1]
                places = tuple(place(encoding, texts, moves, position) for position in positions)
            self.places.append(places)


def read_flat(
    tokenizer: TextTokenizer, inputs: Sequence[tuple[str, ...]], *, truncate: bool = False, reserve: int = 0
) -> FlatTexts:
    """Does what TextTokenizer.encode_all does, and keeps less."""
    found = FlatTexts(tokenizer, tokenizer.max_tokens - reserve if truncate else None)
    for part, characters in tokenizer.in_parts(inputs):
        with tokenizer.naming_errors():
            found.add(part, characters)
    return found


def written_masks(texts: Sequence[str]) -> tuple[Place, ...] | None:
    """Returns where each "[MASK]" of the texts stands. It is a mask only if there are as many of these: "[MASK]s" may be a
    token of its own. Returns None if an accent stands on one, which belongs to its span."""
    found = list[Place]()
    for which, text in enumerate(texts):
        start = text.find(MASK)
        while start >= 0:
            end = start + len(MASK)
            if not text.isascii() and is_mark(text[end : end + 1]):
                return None
            found.append((which, start, end))
            start = text.find(MASK, end)
    return tuple(found)


def _positions(masks: Sequence[int], begins: Sequence[int], ends: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yields the positions of the masks in each text, which begins and ends there. `masks`: among all tokens, ascending."""
    first = 0
    for begin, end in zip(begins, ends, strict=True):
        last = first
        while last < len(masks) and masks[last] < end:
            last += 1
        yield tuple([mask - begin for mask in masks[first:last]])
        first = last


def _joined(rows: Sequence[Sequence[int]], count: int) -> NDArray[np.int64]:
    return np.fromiter(chain.from_iterable(rows), np.int64, count)
