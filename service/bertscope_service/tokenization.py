"""Texts to token sequences, with everything a reply says about tokens: spans, words, masks, truncation.

Positions are Unicode code points of the text as the caller wrote it, also where "[MASK]" became the model's own mask token.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from tokenizers import Encoding, Tokenizer
from transformers import AutoTokenizer

from bertscope_service.encoders.base import TokenSequence
from bertscope_service.errors import FailedPrecondition, InvalidArgument
from bertscope_service.redirections import check_tokenizer

TOKENIZER_FILES = ("tokenizer.json", "vocab.*", "*.model")
MASK = "[MASK]"
"""Understood in texts for every model, whatever its own mask token is."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One token of a text: see bertscope.v1.Token. `word` is None for special tokens."""

    text: str
    id: int
    start: int
    end: int
    special: bool
    word: int | None
    segment: int


@dataclass(frozen=True)
class TokenizedText:
    """A text, or a pair, as the model reads it. `truncated` counts the tokens that were cut away."""

    encoding: Encoding
    texts: tuple[str, ...]
    moves: tuple[tuple[tuple[int, int], ...], ...]
    truncated: int

    @cached_property
    def sequence(self) -> TokenSequence:
        return TokenSequence(self.encoding.ids, self.encoding.type_ids)

    def __len__(self) -> int:
        return len(self.encoding)

    def span(self, index: int) -> tuple[int, int]:
        """First code point and one past the last that token `index` covers in its text, without surrounding blanks."""
        which = self.encoding.token_to_sequence(index)
        characters = self.encoding.token_to_chars(index)
        if which is None or characters is None:
            return 0, 0
        start, end = (_move(place, self.moves[which]) for place in characters)
        covered = self.texts[which][start:end]
        start += len(covered) - len(covered.lstrip())
        return start, max(start, end - (len(covered) - len(covered.rstrip())))

    def pieces(self, tokenizer: TextTokenizer) -> list[Piece]:
        """All tokens, in order."""
        found, segment = [], 0
        columns = zip(self.encoding.ids, self.encoding.word_ids, self.encoding.sequence_ids, strict=True)
        for index, (token, word, which) in enumerate(columns):
            # A special token belongs to the text it closes; the first one opens the first text.
            segment = segment if which is None else which
            start, end = self.span(index)
            word = None if which is None else word
            found.append(Piece(tokenizer.piece(token), token, start, end, which is None, word, segment))
        return found


@dataclass
class TextTokenizer:
    """A model's own tokenizer. Safe to use from several threads: its only cache holds what each of them would compute."""

    backend: Tokenizer
    truncating: Tokenizer
    mask_token: str | None
    mask_id: int | None
    unknown_id: int | None
    max_tokens: int
    _words: dict[int, str] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def load(cls, folder: Path, max_tokens: int) -> TextTokenizer:
        """Read the tokenizer of a checkpoint folder. Raises FailedPrecondition if it has none that can be used."""
        if not any(path for pattern in TOKENIZER_FILES for path in folder.glob(pattern)):
            # transformers would make up a vocabulary of nothing but special tokens.
            message = f"{folder} has no tokenizer; add its tokenizer.json"
            raise FailedPrecondition(message, "SOURCE_UNREADABLE", source=folder)
        try:
            check_tokenizer(folder)
            tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
            backend = tokenizer.backend_tokenizer
        except FailedPrecondition:
            raise
        except Exception as error:
            message = f"the tokenizer in {folder} can't be read ({type(error).__name__}): it needs a tokenizer.json"
            raise FailedPrecondition(message, "SOURCE_UNREADABLE", source=folder) from error
        backend.no_truncation()
        backend.no_padding()
        longest = min(max_tokens, int(tokenizer.model_max_length))
        return cls(
            backend,
            Tokenizer.from_str(backend.to_str()),
            tokenizer.mask_token,
            tokenizer.mask_token_id,
            tokenizer.unk_token_id,
            longest,
        )

    def encode(self, text: str, text_pair: str | None = None, *, truncate: bool = False, reserve: int = 0) -> TokenizedText:
        """Tokenize a text or a pair. With `truncate`, cut to `max_tokens - reserve`, the longer text first."""
        texts = (text,) if text_pair is None else (text, text_pair)
        written = [self._with_own_mask(part) for part in texts]
        moves = tuple(part_moves for _, part_moves in written)
        first, second = written[0][0], written[1][0] if text_pair is not None else None
        encoding = self.backend.encode(first, second)
        excess = max(0, len(encoding) - self.max_tokens + reserve) if truncate else 0
        if excess:
            with self._lock:
                self.truncating.enable_truncation(self.max_tokens - reserve, strategy="longest_first")
                encoding = self.truncating.encode(first, second)
        return TokenizedText(encoding, texts, moves, excess)

    @property
    def size(self) -> int:
        """Number of entries, added ones included."""
        return self.backend.get_vocab_size(with_added_tokens=True)

    def piece(self, token: int) -> str:
        """The vocabulary entry; "[id]" for one that only the model's rounded-up vocabulary has."""
        return self.backend.id_to_token(token) or f"[{token}]"

    def word(self, token: int) -> str:
        """The entry as one would write it: "Ġthe" is "the", "##s" is "s"."""
        found = self._words.get(token)
        if found is None:
            written = self.backend.decode([token], skip_special_tokens=False).strip()
            # Half a code point decodes to the replacement character: then the entry itself says more.
            found = self.piece(token) if not written or "\ufffd" in written else written.removeprefix("##")
            self._words[token] = found
        return found

    def pieces_in_context(self, word: str, before: str) -> tuple[int, ...]:
        """Ids of a word's pieces as it stands after the character `before` ("" at the start of a text).

        In byte-level and sentence-piece vocabularies "Paris" and " Paris" are different entries, so what comes before matters.
        Empty if the word has none of its own (blanks, control characters).
        """
        if not word.strip():
            return ()
        context = f"x{before}".rstrip()
        ahead = self.backend.encode(context, add_special_tokens=False).ids
        together = self.backend.encode(f"x{before}{word}", add_special_tokens=False).ids
        if not before or together[: len(ahead)] != ahead:
            # At the start of a text, or grown together with what stands before: then the word as it is alone.
            return tuple(self.backend.encode(word, add_special_tokens=False).ids)
        return tuple(together[len(ahead) :])

    def _with_own_mask(self, text: str) -> tuple[str, tuple[tuple[int, int], ...]]:
        """The text with this model's mask token for "[MASK]", and where positions move: (from here on, by so much)."""
        own = self.mask_token
        if own is None or own == MASK or MASK not in text:
            return text, ()
        moves, shift, start = [], 0, text.find(MASK)
        while start >= 0:
            shift += len(MASK) - len(own)
            moves.append((start + len(MASK) - shift, shift))
            start = text.find(MASK, start + len(MASK))
        return text.replace(MASK, own), tuple(move for move in moves if len(MASK) != len(own))


def _move(place: int, moves: Sequence[tuple[int, int]]) -> int:
    """A position in the rewritten text as a position in the caller's text."""
    shift = 0
    for begin, by in moves:
        if place < begin:
            break
        shift = by
    return place + shift


def check_length(tokenized: TokenizedText, field: str, max_tokens: int, *, cuttable: bool = True) -> None:
    """Raise InvalidArgument if a text is longer than the model reads. `cuttable`: `truncate` would have cut it."""
    if len(tokenized) > max_tokens:
        remedy = "shorten it, or set truncate" if cuttable else "shorten it"
        message = f"{field} has {len(tokenized)} tokens and the model reads {max_tokens}; {remedy}"
        raise InvalidArgument(field, message, "TEXT_TOO_LONG", tokens=len(tokenized), max_tokens=max_tokens)
