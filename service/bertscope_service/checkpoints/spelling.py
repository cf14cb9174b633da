"""The vocabulary entries of words inside a text."""

from __future__ import annotations

import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Encoding, Tokenizer
from tokenizers.models import BPE, Model, WordPiece

from bertscope_service.checkpoints.encoding import encode_texts
from bertscope_service.checkpoints.word_bounds import BLANK_PIECES

Pieces = tuple[int, ...]

KEPT_VOCABULARIES = 8
"""The lists of words whose entries are kept, so that a study does not tokenize its vocabulary in each call."""


class Speller:
    """Finds the ids of words inside a text. Safe to use from several threads: what it keeps, each of them would compute."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    def pieces(self, words: Sequence[str], before: str) -> list[Pieces]:
        """Returns the ids of each word's pieces after the character `before` ("" at the start of a text).

        In byte-level and sentence-piece vocabularies "Paris" and " Paris" are different entries, and in WordPiece "er" and
        "##er", so the character before matters, with the marks that are written on it. Empty if a word has no pieces of its own
        (blanks, control characters).
        """
        before = self._as_read(before)
        found: list[list[int] | None] = self._after(words, before) if before else [None] * len(words)
        others = [place for place, pieces in enumerate(found) if pieces is None]
        if others:
            spell = self._continued if before.strip() else self._alone
            for place, pieces in zip(others, spell([words[place] for place in others]), strict=True):
                found[place] = pieces
        return [tuple(pieces or ()) if word.strip() else () for word, pieces in zip(words, found, strict=True)]

    def _as_read(self, before: str) -> str:
        """Returns the character before a word, without invisible ones that the tokenizer leaves out or reads as a blank."""
        if self._tokenizer.normalizer is None or not before.strip():
            return before
        read = self._tokenizer.normalizer.normalize_str(before)
        return "" if not read else " " if read[-1].isspace() or read[-1] in BLANK_PIECES else before

    def _after(self, words: Sequence[str], before: str) -> list[list[int] | None]:
        """Returns the pieces of each word in a text where `before` precedes it; None for a word that merges with what precedes
        ("国" and "都" are one entry in "首都"), so that no piece begins where it does."""
        head = f"x{before}".rstrip()
        ahead = _encode(self._tokenizer, [head])[0].ids

        def after(encoding: Encoding) -> list[int] | None:
            rest = encoding.ids[len(ahead) :]
            if not rest or encoding.ids[: len(ahead)] != ahead:
                return None
            # An unknown piece may be the one ahead and still hold characters of the word, its first part or all of it.
            _, end = encoding.token_to_chars(len(ahead) - 1) or (0, 0)
            start, _ = encoding.token_to_chars(len(ahead)) or (0, 0)
            return rest if end <= len(head) <= start else None

        return list(map(after, _encode(self._tokenizer, [f"x{before}{word}" for word in words])))

    def _alone(self, words: Sequence[str]) -> list[list[int]]:
        return [encoding.ids for encoding in _encode(self._tokenizer, words)]

    def _continued(self, words: Sequence[str]) -> list[list[int]]:
        """Returns the pieces of words that continue what precedes without a blank, and yet don't merge with it."""
        plain = _encode(self.without_blank, words)
        if self._continuing is None:
            return [encoding.ids for encoding in plain]
        # Only what stands before the first split continues: in "er-in", "er" does and "in" doesn't.
        firsts = [_first_part(word, encoding) for word, encoding in zip(words, plain, strict=True)]
        begun = _encode(self._continuing, firsts)
        return [
            first.ids + [token for token, part in zip(whole.ids, whole.word_ids, strict=True) if part]
            for first, whole in zip(begun, plain, strict=True)
        ]

    @cached_property
    def without_blank(self) -> Tokenizer:
        """The tokenizer without the blank that byte-level and sentence-piece ones put in front of a text."""
        shell = Tokenizer(BPE())
        if self._tokenizer.normalizer is not None:
            shell.normalizer = self._tokenizer.normalizer
        if self._tokenizer.pre_tokenizer is not None:
            shell.pre_tokenizer = self._tokenizer.pre_tokenizer
        steps = json.loads(shell.to_str())
        steps["normalizer"] = _unprefixed(steps["normalizer"])
        steps["pre_tokenizer"] = _unprefixed(steps["pre_tokenizer"])
        made = _with_steps(self._tokenizer.model, Tokenizer.from_str(json.dumps(steps)))
        # In the order of their ids, so that those behind the vocabulary get theirs again.
        made.add_tokens([token for _, token in sorted(self._tokenizer.get_added_tokens_decoder().items())])
        return made

    @cached_property
    def _continuing(self) -> Tokenizer | None:
        """A WordPiece tokenizer whose words all continue one ("er" is "##er"); None for other kinds."""
        model = self._tokenizer.model
        if not isinstance(model, WordPiece):
            return None
        prefix = model.continuing_subword_prefix
        entries = self._tokenizer.get_vocab(with_added_tokens=False)
        vocab = {entry: token for entry, token in entries.items() if entry.startswith(prefix) or entry == model.unk_token}
        vocab |= {entry.removeprefix(prefix): token for entry, token in vocab.items() if entry != model.unk_token}
        continuing = WordPiece(
            vocab,
            unk_token=model.unk_token,
            continuing_subword_prefix=prefix,
            max_input_chars_per_word=model.max_input_chars_per_word,
        )
        return _with_steps(continuing, self._tokenizer)


def _encode(tokenizer: Tokenizer, texts: Sequence[str]) -> list[Encoding]:
    return encode_texts(tokenizer, [(text,) for text in texts], sum(map(len, texts)), special=False)


def _first_part(word: str, encoding: Encoding) -> str:
    """Returns a word up to the first place where the tokenizer splits it."""
    parts = encoding.word_ids
    cut = next((place for place, part in enumerate(parts) if part), None)
    return word if cut is None else word[: encoding.offsets[cut][0]]


def _with_steps(model: Model, other: Tokenizer) -> Tokenizer:
    """Returns a tokenizer of a model, with the normalizer and the pre-tokenizer of another."""
    made = Tokenizer(model)
    if other.normalizer is not None:
        made.normalizer = other.normalizer
    if other.pre_tokenizer is not None:
        made.pre_tokenizer = other.pre_tokenizer
    return made


def _unprefixed(step: dict[str, Any] | None) -> dict[str, Any] | None:
    """Returns a step of a tokenizer.json that puts no blank in front of a text; None if that was all that it did."""
    if step is None or step["type"] == "Prepend":
        return None
    if step["type"] == "Sequence":
        name = "normalizers" if "normalizers" in step else "pretokenizers"
        return {**step, name: [inner for one in step[name] if (inner := _unprefixed(one)) is not None]}
    if step["type"] == "Metaspace":
        return {**step, "prepend_scheme": "never"}
    if step["type"] == "ByteLevel" and "add_prefix_space" in step:
        return {**step, "add_prefix_space": False}
    return step


class SingleEntries:
    """Finds the words that are single entries of a vocabulary; keeps what it found for the last few lists. Safe to use from
    several threads."""

    def __init__(self, speller: Speller, unknown_id: int | None) -> None:
        self._speller, self._unknown_id = speller, unknown_id
        self._kept: OrderedDict[bytes, NDArray[np.int64]] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, words: Sequence[str], before: str) -> NDArray[np.int64]:
        """Returns the id of each word after the character `before`, -1 for one that is no single entry; read-only."""
        key = hashlib.sha256("\0".join((before, *words)).encode(errors="surrogatepass")).digest()
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        spelled = self._speller.pieces(words, before)
        found = np.array([_single(pieces, self._unknown_id) for pieces in spelled], dtype=np.int64)
        found.setflags(write=False)
        with self._lock:
            self._kept[key] = found
            while len(self._kept) > KEPT_VOCABULARIES:
                self._kept.popitem(last=False)
        return found


def _single(pieces: Pieces, unknown_id: int | None) -> int:
    return pieces[0] if len(pieces) == 1 and pieces[0] != unknown_id else -1
