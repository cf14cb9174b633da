"""Conversion of texts to token sequences: reads a checkpoint's tokenizer, replaces masks, truncates."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain, compress
from operator import not_
from pathlib import Path

from tokenizers import Encoding, Tokenizer, decoders
from tokenizers.models import WordPiece

from bertscope_service import cancellation
from bertscope_service.checkpoints.ascii_tokenizer import ascii_tokenizer, printable_ascii
from bertscope_service.checkpoints.encoding import encode_texts
from bertscope_service.checkpoints.entry_words import KeptWords
from bertscope_service.checkpoints.marked_words import AnyEncoding, Mark, PartedEncoding, part_encoding, places_to_part
from bertscope_service.checkpoints.mask_names import MASK, Moves, find_moves
from bertscope_service.checkpoints.spelling import SingleEntries, Speller
from bertscope_service.checkpoints.tokenized_text import TokenizedText, span
from bertscope_service.checkpoints.tokenizer_errors import NamingErrors
from bertscope_service.checkpoints.tokenizer_reading import read_tokenizer, reads_segments
from bertscope_service.groups import within

PART_CHARACTERS = 200_000
"""Characters that are tokenized at a time, some tenths of a second, unless one text has more."""

SAMPLE = "a"
"""A text that every working tokenizer accepts."""

SAMPLES = 8
"""So many in a row show how many tokens each becomes, whatever is in front of them."""


@dataclass
class TextTokenizer:
    """A model's own tokenizer. Safe to use from several threads: its caches hold values that each of them would compute.

    `owner` is the model's name, for errors: a tokenizer may fail on some texts long after it was loaded. segmented: whether the
    second text of a pair is segment 1, as its template says; else all is segment 0. cut_start: whether truncation cuts a text's
    start rather than its end. written_letters: the most letters that its steps write for a byte; see `check_growth`.
    """

    backend: Tokenizer
    mask_token: str | None
    mask_id: int | None
    unknown_id: int | None
    max_tokens: int
    owner: str = "the model"
    segmented: bool = True
    cut_start: bool = False
    written_letters: float = 1.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def load(
        cls, folder: Path, max_tokens: int, *, owner: str = "the model", check: Callable[[], None] = lambda: None
    ) -> TextTokenizer:
        """Reads the tokenizer of a checkpoint folder; `check` is called if that takes long, and may raise to abandon it. Raises
        FailedPrecondition if it has no usable one."""
        backend, own, growth = read_tokenizer(folder, check)
        longest = min(max_tokens, int(own.model_max_length))
        return cls(
            backend,
            own.mask_token,
            own.mask_token_id,
            own.unk_token_id,
            longest,
            owner,
            segmented=reads_segments(folder),
            cut_start=own.truncation_side == "left",
            written_letters=growth,
        )

    @cached_property
    def growth(self) -> int:
        """How many letters or tokens a letter becomes at most, beyond its forms and bytes of Unicode. 1 for usual tokenizers;
        more if steps write several letters for one, or if a text is repeated. Raises FailedPrecondition."""
        tokens = len(self.encode(SAMPLE * SAMPLES)) - self.special_tokens(pair=False)
        return max(1, int(self.written_letters), tokens // SAMPLES)

    def encode(self, text: str, text_pair: str | None = None, *, truncate: bool = False, reserve: int = 0) -> TokenizedText:
        """Tokenizes a text or a pair. With `truncate`, cuts it to `max_tokens - reserve`, the longer text first."""
        texts = (text,) if text_pair is None else (text, text_pair)
        return self.encode_all([texts], truncate=truncate, reserve=reserve)[0]

    def encode_all(
        self,
        inputs: Sequence[tuple[str, ...]],
        *,
        truncate: bool = False,
        reserve: int = 0,
        words: Sequence[Sequence[Mark]] | None = None,
    ) -> list[TokenizedText]:
        """Tokenizes texts and pairs; see encode. Several are tokenized in parallel, without Python's lock.

        words: the marked words of each; where one has no piece of its own, pieces are parted (see marked_words).
        """
        room = self.max_tokens - reserve
        found = list[TokenizedText]()
        for part, characters in self.in_parts(inputs):
            written = [self.with_own_mask(texts) for texts in part]
            with self.naming_errors():
                encodings = self._encode([own for own, _ in written], characters)
                for texts, (own, moves), whole in zip(part, written, encodings, strict=True):
                    marks = words[len(found)] if words is not None else ()
                    encoding = self._parted(whole, texts, own, moves, marks) if marks else whole
                    excess = max(0, len(encoding) - room) if truncate else 0
                    if excess and isinstance(encoding, PartedEncoding):
                        encoding = encoding.cut(room, start=self.cut_start)
                    elif excess:
                        encoding = self.cut(own, room)
                    found.append(TokenizedText.of(encoding, self.segments(encoding), texts, moves, excess))
        return found

    def encode_again(self, texts: tuple[str, ...], room: int | None) -> Encoding:
        """Returns the encoding of a text or pair, cut to `room` tokens unless that is None."""
        own, _ = self.with_own_mask(texts)
        with self.naming_errors():
            return self._encode([own], self.characters(own))[0] if room is None else self.cut(own, room)

    def in_parts(self, inputs: Sequence[tuple[str, ...]]) -> Iterator[tuple[Sequence[tuple[str, ...]], int]]:
        """Yields texts and pairs, as many as are tokenized at a time, and the characters that they become. May be
        cancelled between them."""
        sizes = list(map(self.characters, inputs))
        for chosen in within(sizes, PART_CHARACTERS):
            cancellation.check()
            yield inputs[chosen], sum(sizes[chosen])

    def characters(self, texts: tuple[str, ...]) -> int:
        """Returns how many characters texts may become."""
        return int(sum([len(text) for text in texts]) * self.written_letters)

    def segments(self, encoding: AnyEncoding) -> list[int]:
        """Returns the segment of each token."""
        return encoding.type_ids if self.segmented else [0] * len(encoding)

    @cached_property
    def gives_segment_0(self) -> bool:
        """True if all tokens of a text that is no pair are in segment 0."""
        return not any(self.encode(SAMPLE).sequence.segments)

    def encode_ids(self, parts: Sequence[tuple[str, ...]], characters: int) -> list[Encoding]:
        """Returns the encodings of texts and pairs with this model's mask token, which become so many `characters`; if it
        `finds_masks`, they don't say where tokens stand."""
        return self._encode(parts, characters, spans=not self.finds_masks)

    @cached_property
    def finds_masks(self) -> bool:
        """True if "[MASK]" is the mask token, and its tokens are those places of a text that are written so, as BERT's
        tokenizer finds them."""
        added = self.backend.get_added_tokens_decoder().get(-1 if self.mask_id is None else self.mask_id)
        as_written = added is not None and added.content == MASK and not (added.normalized or added.single_word)
        return as_written and self._of_ascii is not None

    def _encode(self, parts: Sequence[tuple[str, ...]], characters: int, *, spans: bool = True) -> list[Encoding]:
        encode = partial(encode_texts, characters=characters, spans=spans)
        if self._of_ascii is None:
            return encode(self.backend, parts)
        if printable_ascii("".join(chain.from_iterable(parts))):
            return encode(self._of_ascii, parts)
        ascii_alone = [all(map(printable_ascii, part)) for part in parts]
        quick = iter(encode(self._of_ascii, list(compress(parts, ascii_alone))))
        others = iter(encode(self.backend, list(compress(parts, map(not_, ascii_alone)))))
        return [next(quick if plain else others) for plain in ascii_alone]

    def special_tokens(self, *, pair: bool) -> int:
        """Returns the number of tokens that are added to a text or pair."""
        return self.backend.num_special_tokens_to_add(is_pair=pair)

    @cached_property
    def special_ids(self) -> list[int]:
        """Entries that the tokenizer adds to a text, such as [CLS], but for the mask token."""
        special = [token for token, added in self.backend.get_added_tokens_decoder().items() if added.special]
        return [token for token in special if token != self.mask_id]

    @cached_property
    def has_blanks(self) -> bool:
        """True if the blank before a word is part of entries, as in byte-level and sentence-piece vocabularies."""
        kinds = (decoders.ByteLevel, decoders.Metaspace)
        decoder = self.backend.decoder
        return isinstance(decoder, kinds) or (isinstance(decoder, decoders.Sequence) and "▁" in str(decoder))

    @cached_property
    def _of_ascii(self) -> Tokenizer | None:
        return ascii_tokenizer(self.backend)

    @cached_property
    def _truncating(self) -> Tokenizer:
        return Tokenizer.from_str(self.backend.to_str())

    def cut(self, part: tuple[str, ...], tokens: int) -> Encoding:
        """Returns the encoding of a text or pair with this model's mask token, cut to so many tokens."""
        with self._lock:
            self._truncating.enable_truncation(
                tokens, strategy="longest_first", direction="left" if self.cut_start else "right"
            )
            return encode_texts(self._truncating, [part], self.characters(part))[0]

    def _parted(
        self, whole: Encoding, texts: tuple[str, ...], own: tuple[str, ...], moves: Sequence[Moves], marks: Sequence[Mark]
    ) -> AnyEncoding:
        spans = [span(whole, texts, moves, index) for index in range(len(whole))]
        # A mask has no parts.
        spans = [(start, start if token == self.mask_id else end) for (start, end), token in zip(spans, whole.ids, strict=True)]
        places = places_to_part(spans, whole.sequence_ids, texts, marks)
        if not places:
            return whole
        return part_encoding(whole, own, moves, places, self.backend, self._speller.without_blank)

    @property
    def size(self) -> int:
        """Number of entries, added ones included."""
        return self.backend.get_vocab_size(with_added_tokens=True)

    def piece(self, token: int) -> str:
        """Returns the vocabulary entry; "[id]" for one that only the model's rounded-up vocabulary has."""
        return self.backend.id_to_token(token) or f"[{token}]"

    def entry(self, piece: str) -> int | None:
        """Returns the id of a vocabulary entry, None if there is none."""
        with self.naming_errors():
            return self.backend.token_to_id(piece)

    def word(self, token: int) -> str:
        """Returns the entry as it is written in texts: "Ġthe" is "the", "##s" is "s"."""
        return self.words[token].text

    @cached_property
    def words(self) -> KeptWords:
        """The entries of the vocabulary as words, kept for all answers."""
        return KeptWords(self._word)

    def _word(self, token: int) -> str:
        with self.naming_errors():
            written = self.backend.decode([token], skip_special_tokens=False).strip()
        # Half a code point decodes to the replacement character: then the entry itself is better.
        return self.piece(token) if not written or "\ufffd" in written else self._begun(written)

    def written(self, tokens: Sequence[int]) -> str:
        """Returns several entries as they are written together: "play", "##er" is "player"."""
        if len(tokens) == 1:
            return self.word(tokens[0])
        with self.naming_errors():
            written = self.backend.decode(list(tokens), skip_special_tokens=False).strip()
        known = all(self.backend.id_to_token(token) is not None for token in tokens)
        # As in `word`; and an entry that only the model's vocabulary has would be left out.
        return self._begun(written) if written and known and "\ufffd" not in written else "".join(map(self.piece, tokens))

    def _begun(self, written: str) -> str:
        """Returns decoded entries without the mark of WordPiece that they continue a word. To other kinds "##" is a text."""
        return written.removeprefix(self.continuing_prefix) or written

    @cached_property
    def continuing_prefix(self) -> str:
        """The mark of entries that continue a word in a WordPiece vocabulary, "" in another kind."""
        model = self.backend.model
        return model.continuing_subword_prefix if isinstance(model, WordPiece) else ""

    def pieces_in_context(self, word: str, before: str) -> tuple[int, ...]:
        """Returns the ids of a word's pieces after the character `before` ("" at the start of a text).

        See `Speller.pieces`.
        """
        return self.all_pieces_in_context((word,), before)[0]

    def all_pieces_in_context(self, words: Sequence[str], before: str) -> list[tuple[int, ...]]:
        """Returns the ids of each word's pieces; several words are tokenized in parallel, without Python's lock."""
        with self.naming_errors():
            return self._speller.pieces(words, before)

    @cached_property
    def single_entries(self) -> SingleEntries:
        """The words that are single entries of the vocabulary."""
        return SingleEntries(self._speller, self.unknown_id)

    @cached_property
    def _speller(self) -> Speller:
        return Speller(self.backend)

    def naming_errors(self) -> NamingErrors:
        """Converts errors of the tokenizer's library inside the block to errors of the model."""
        return NamingErrors(self.owner)

    def with_own_mask(self, texts: tuple[str, ...]) -> tuple[tuple[str, ...], Sequence[Moves]]:
        """Returns texts with this model's mask token for "[MASK]", and their moves."""
        own = self.mask_token
        if own is None or own == MASK:
            return texts, ((), ())
        return tuple(text.replace(MASK, own) for text in texts), [find_moves(text, own) for text in texts]
