"""Where words end that a tokenizer does not part."""

from __future__ import annotations

import unicodedata
from functools import lru_cache

BLANK_PIECES = ("▁", "Ġ")
"""Pieces that are nothing but the blank before a word, which has no entry that begins with one."""

UNSPACED = (
    *("CJK", "IDEOGRAPHIC", "HIRAGANA", "KATAKANA", "HALFWIDTH KATAKANA", "BOPOMOFO", "YI", "NUSHU", "TANGUT"),
    *("THAI", "LAO", "KHMER", "MYANMAR", "TAI", "NEW TAI", "BALINESE", "JAVANESE", "TIBETAN"),
)
"""First words of the Unicode names of characters in scripts that are written without blanks between words."""


MOST_MARKS = 16
"""Marks on one character; a text may have more."""

KANA_MARKS = "\uff9e\uff9f"
"""Marks of half-width kana, which are letters to Unicode."""

JOINER = "\u200d"
"""The character that joins several emoji to one."""

SKIN_TONES, FLAG_LETTERS = frozenset(map(chr, range(0x1F3FB, 0x1F400))), frozenset(map(chr, range(0x1F1E6, 0x1F200)))
"""Characters that colour the emoji before them, and those of which two are a flag."""

BLANK_OF_NO_WIDTH = "\u200b"
"""The character of Unicode's format class that parts words, as a blank does."""


def is_mark(character: str) -> bool:
    """Returns whether a character is written on the one before it: an accent, a vowel sign."""
    return character > "\u02ff" and (unicodedata.category(character)[0] == "M" or character in KANA_MARKS)


def is_invisible(character: str) -> bool:
    """Returns whether a character is of Unicode's format class: joiners, marks of direction, soft hyphens."""
    return character > "\u007f" and unicodedata.category(character) == "Cf"


def place_of_base(text: str, end: int) -> int:
    """Returns the place of the last character before another place that is no mark and not invisible; -1 if there is none. Of a
    run of more than MOST_MARKS, these are read alone."""
    place = end - 1
    while place >= max(0, end - MOST_MARKS) and (is_mark(text[place]) or is_invisible(text[place])):
        place -= 1
    return place


def join_parts(before: str, after: str) -> bool:
    """Returns whether two parts that a tokenizer made may be of one word, as a mark or an invisible character is between
    them."""
    return BLANK_OF_NO_WIDTH not in (before, after) and any(is_mark(one) or is_invisible(one) for one in (before, after))


@lru_cache(maxsize=65536)
def part_words(before: str, after: str) -> bool:
    """Returns whether a word ends between two characters if a piece does: at punctuation and symbols, as in BERT's own
    tokenizer, and in scripts without blanks, where each piece is a word."""
    if is_mark(after) or is_invisible(after) or after in SKIN_TONES or {before, after} <= FLAG_LETTERS:
        # A mark or a joiner belongs to what precedes, and several characters may be one emoji.
        return False
    return _stands_alone(after) or (before != "" and _stands_alone(before))


def part_words_at(text: str, place: int) -> bool:
    """Returns whether a word ends at a place inside a text if a piece does; see `part_words`."""
    return text[place - 1] != JOINER and part_words(text[max(0, place_of_base(text, place))], text[place])


def _stands_alone(character: str) -> bool:
    return unicodedata.category(character)[0] in "PS" or unicodedata.name(character, "").startswith(UNSPACED)
