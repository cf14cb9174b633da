"""Describes texts with the trees of their words for structural probes, and reads them from CoNLL-U."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, SupportsIndex

from bertscope import _validation
from bertscope._display import short_repr
from bertscope._validation import File, TextOrPair
from bertscope.conllu import HEAD, BadLine, Sentence, read_sentences
from bertscope.files import PartialItems
from bertscope.spans import Span, parts

UPOS = 3
"""The column of the universal part of speech."""
PUNCTUATION = "PUNCT"


class TreeWord(NamedTuple):
    """A word with its head."""

    head: int | None
    """Number of the head among the text's words, from 1; 0 for the root; None for a word outside the tree."""
    span: tuple[int, int] | tuple[int, int, int] | None
    """Its place, (start, end) or (start, end, segment) in code points; None for a word that is not written out."""
    punctuation: bool = False
    """True leaves the word out of edges and roots."""


@dataclass(frozen=True)
class TreeText:
    """A text with the tree of its words.

    >>> TreeText("The cat sleeps.", [(2, (0, 3)), (3, (4, 7)), (0, (8, 14))]).words[2]
    TreeWord(head=0, span=Span(start=8, end=14, segment=0), punctuation=False)
    """

    __repr__ = short_repr

    text: TextOrPair
    """The text, or a pair (text, text_pair)."""
    words: Sequence[TreeWord | tuple[int | None, tuple[int, int] | None]]
    """The words: (head, span) or (head, span, punctuation)."""

    def __post_init__(self) -> None:
        """Raises InvalidArgument for values that can't be sent; the server judges the others."""
        _validation.text_or_pair("text", self.text)
        given = _validation.many("words", self.words, "tuples")
        object.__setattr__(self, "words", tuple(_word(f"words[{index}]", value) for index, value in enumerate(given)))


class TreeTexts(PartialItems[TreeText]):
    """The sentences read from a file, of which some could not be."""


def read_tree_conllu(path: File, *, limit: SupportsIndex | None = None) -> TreeTexts:
    """Reads the trees of a CoNLL-U file, for `train_structural_probe`.

    Words of the part of speech PUNCT are marked as punctuation. Of several words that are written as one, all but the first are
    in the tree without a place. A sentence with a line that can't be read, or whose heads make up no tree, is left out and
    reported in `problems`; the others are read. `limit` reads that many. Raises OSError for a file that can't be read, and
    InvalidArgument if no sentence of it can be.
    """
    found = TreeTexts()
    read_sentences(path, limit, _text, found)
    return found


def _word(field: str, value: object) -> TreeWord:
    head, span, *rest = parts(field, value, (2, 3), "(head, span) or (head, span, punctuation)")
    number = None if head is None else _validation.uint32(f"{field}'s head", head)
    punctuation = _validation.flag(f"{field}'s punctuation", rest[0]) if rest else False
    if span is None:
        return TreeWord(number, None, punctuation)
    place = parts(f"{field}'s span", span, (2, 3), "(start, end) or (start, end, segment)")
    return TreeWord(number, Span(*(_validation.uint32(f"{field}'s span", part) for part in place)), punctuation)


def _text(sentence: Sentence) -> TreeText:
    _check_tree(sentence)
    order = {number: index for index, number in enumerate(sentence.rows, start=1)}
    words, placed = [], set()
    for number, row in sentence.rows.items():
        place = sentence.places[number]
        span = None if place in placed else sentence.spans[place]
        placed.add(place)
        head = None if row[HEAD] == "_" else order.get(int(row[HEAD]), 0)
        words.append(TreeWord(head, span, row[UPOS] == PUNCTUATION))
    return TreeText(sentence.text, words)


def _check_tree(sentence: Sentence) -> None:
    """Raises BadLine for heads that make up no tree."""
    heads = {number: int(row[HEAD]) for number, row in sentence.rows.items() if row[HEAD] != "_"}
    roots = [number for number, head in heads.items() if not head]
    first = min(sentence.lines.values())
    if len(roots) != 1:
        raise BadLine(first, f"begins a sentence with {len(roots)} roots; a tree has one")
    below = set(roots)
    for number in heads:
        path: list[int] = []
        while number not in below:
            if number in path or number not in heads:
                raise BadLine(sentence.lines[path[0]], "is not below the root")
            path.append(number)
            number = heads[number]  # goes up the tree
        below.update(path)
