"""How vocabulary entries are written: their names in a list, and in place of a mask."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from bertscope_service.checkpoints.tokenized_text import TokenizedText
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.checkpoints.word_bounds import BLANK_PIECES, part_words

BLANK = "·"
"""The mark of an entry that begins with a blank, where another one of a list is written alike."""


def entry_names(tokenizer: TextTokenizer, tokens: Sequence[int]) -> list[str]:
    """Returns the names of a list of entries: as they are written, and told apart where two are written alike."""
    names = list(map(tokenizer.word, tokens))
    return names if len(set(names)) == len(names) else phrase_names(tokenizer, [(token,) for token in tokens])


def phrase_names(tokenizer: TextTokenizer, phrases: Sequence[tuple[int, ...]]) -> list[str]:
    """Returns the names of a list of phrases of one or more entries each.

    Of different phrases that are written alike, one that begins with a blank is named "·most" and one that continues a word
    "##er"; if that does not tell them apart, all of them are named by their vocabulary entries, "play+##er".
    """
    distinct = dict.fromkeys(phrases)
    names = {phrase: tokenizer.written(phrase) for phrase in distinct}
    for name_of in (_marked, _spelled):
        counts = Counter(names.values())
        names |= {phrase: name_of(tokenizer, phrase) for phrase, name in names.items() if counts[name] > 1}
    return [names[phrase] for phrase in phrases]


def _marked(tokenizer: TextTokenizer, phrase: tuple[int, ...]) -> str:
    name = tokenizer.written(phrase)
    if begins_with_blank(tokenizer, phrase[0]):
        return f"{BLANK}{name}"
    prefix = tokenizer.continuing_prefix
    return f"{prefix}{name}" if prefix and tokenizer.piece(phrase[0]).startswith(prefix) else name


def _spelled(tokenizer: TextTokenizer, phrase: tuple[int, ...]) -> str:
    return "+".join(map(tokenizer.piece, phrase))


def begins_with_blank(tokenizer: TextTokenizer, token: int) -> bool:
    """Returns whether an entry of a byte-level or sentence-piece vocabulary begins with a blank."""
    piece = tokenizer.piece(token)
    return piece.startswith(BLANK_PIECES) and not tokenizer.word(token).startswith(BLANK_PIECES)


@dataclass(frozen=True, slots=True)
class WrittenEntries:
    """Text that entries write in place of a mask, so that the whole is the one that was scored.

    text: with a blank in front if they begin with one, or begin a word, and the text has none there. removed_blanks: the blanks
    before the mask that go, because the entries continue the word before them.
    """

    text: str
    removed_blanks: int


def write_in_place(
    tokenizer: TextTokenizer, tokenized: TokenizedText, position: int, phrase: tuple[int, ...], left: str | None = None
) -> WrittenEntries:
    """Returns what a phrase writes in place of the mask at a position. `left` is what is written there in place of another mask
    that ends where this one begins."""
    start, _ = tokenized.span(position)
    before = left if left is not None else tokenized.texts[tokenized.segment(position)][:start]
    written = tokenizer.written(phrase)
    blanks = len(before) - len(before.rstrip())
    if _begins_word(tokenizer, phrase[0], before[-1:], written[:1]):
        return WrittenEntries(written if blanks or not before else f" {written}", 0)
    # A blank that is a piece of its own stays.
    kept = position > 0 and tokenizer.piece(tokenized.sequence.ids[position - 1]) in BLANK_PIECES
    return WrittenEntries(written, blanks if before.strip() and not kept and _can_continue(tokenizer, phrase[0]) else 0)


def _begins_word(tokenizer: TextTokenizer, token: int, before: str, first: str) -> bool:
    """Returns whether an entry stands apart from the character before it."""
    prefix = tokenizer.continuing_prefix
    if not prefix:
        return begins_with_blank(tokenizer, token)
    # WordPiece has no blanks: a word begins behind a mark without one.
    starts = not tokenizer.piece(token).startswith(prefix)
    return starts and before != "" and first != "" and not before.isspace() and not part_words(before, first)


def _can_continue(tokenizer: TextTokenizer, token: int) -> bool:
    """Returns whether an entry without a blank continues the word before it, as all do in a vocabulary that has blanks."""
    prefix = tokenizer.continuing_prefix
    if prefix:
        return tokenizer.piece(token).startswith(prefix)
    return tokenizer.has_blanks
