"""Reads the trees of texts' words for structural probes from CoNLL-U."""

from __future__ import annotations

from typing import SupportsIndex

from bertscope import TreeText, TreeWord
from bertscope.values.validation import File

from bertscope_workbench.readers.conllu import HEAD, BadLine, Sentence, read_sentences
from bertscope_workbench.readers.files import PartialItems

__all__ = ["TreeTexts", "read_tree_conllu"]

UPOS = 3
"""The column of the universal part of speech."""
PUNCTUATION = "PUNCT"


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
