"""The vocabulary entries of words inside a text."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

Pieces = tuple[int, ...]

KEPT_VOCABULARIES = 8
"""The lists of words whose entries are kept, so that a study does not tokenize its vocabulary in each call."""


def pieces_in_context(tokenizer: Tokenizer, words: Sequence[str], before: str) -> list[Pieces]:
    """Returns the ids of each word's pieces after the character `before` ("" at the start of a text).

    In byte-level and sentence-piece vocabularies "Paris" and " Paris" are different entries, so the character before matters.
    Empty if a word has no pieces of its own (blanks, control characters).
    """
    ahead = _ids(tokenizer, [f"x{before}".rstrip()])[0]
    found = [ids[len(ahead) :] if before and ids[: len(ahead)] == ahead else None for ids in _after(tokenizer, words, before)]
    # At the start of a text, or if a word merges with the characters before it, it is tokenized alone.
    alone = [place for place, pieces in enumerate(found) if pieces is None]
    for place, pieces in zip(alone, _ids(tokenizer, [words[place] for place in alone]), strict=True):
        found[place] = pieces
    return [tuple(pieces or ()) if word.strip() else () for word, pieces in zip(words, found, strict=True)]


def _after(tokenizer: Tokenizer, words: Sequence[str], before: str) -> list[list[int]]:
    return _ids(tokenizer, [f"x{before}{word}" for word in words]) if before else [[]] * len(words)


def _ids(tokenizer: Tokenizer, texts: Sequence[str]) -> list[list[int]]:
    return [encoding.ids for encoding in tokenizer.encode_batch(list(texts), add_special_tokens=False)]


class SingleEntries:
    """Finds the words that are single entries of a vocabulary; keeps what it found for the last few lists. Safe to use from
    several threads."""

    def __init__(self, tokenizer: Tokenizer, unknown_id: int | None) -> None:
        self._tokenizer, self._unknown_id = tokenizer, unknown_id
        self._kept: OrderedDict[bytes, NDArray[np.int64]] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, words: Sequence[str], before: str) -> NDArray[np.int64]:
        """Returns the id of each word after the character `before`, -1 for one that is no single entry; read-only."""
        key = hashlib.sha256("\0".join((before, *words)).encode(errors="surrogatepass")).digest()
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        spelled = pieces_in_context(self._tokenizer, words, before)
        found = np.array([_single(pieces, self._unknown_id) for pieces in spelled], dtype=np.int64)
        found.setflags(write=False)
        with self._lock:
            self._kept[key] = found
            while len(self._kept) > KEPT_VOCABULARIES:
                self._kept.popitem(last=False)
        return found


def _single(pieces: Pieces, unknown_id: int | None) -> int:
    return pieces[0] if len(pieces) == 1 and pieces[0] != unknown_id else -1
