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


@lru_cache(maxsize=65536)
def part_words(before: str, after: str) -> bool:
    """Returns whether a word ends between two characters if a piece does: at punctuation and symbols, as in BERT's own
    tokenizer, and in scripts without blanks, where each piece is a word."""
    if unicodedata.category(after)[0] == "M" or unicodedata.category(after) == "Cf":
        # A mark or a joiner belongs to what precedes.
        return False
    return _stands_alone(after) or (before != "" and _stands_alone(before))


def _stands_alone(character: str) -> bool:
    return unicodedata.category(character)[0] in "PS" or unicodedata.name(character, "").startswith(UNSPACED)
