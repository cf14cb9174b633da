"""Reads texts with labels for probes from CoNLL-U."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, SupportsIndex

from bertscope import ProbeText
from bertscope.values import validation
from bertscope.values.labelled_texts import Label
from bertscope.values.validation import File

from bertscope_workbench.readers.conllu import BadLine, Sentence, read_sentences
from bertscope_workbench.readers.files import PartialItems

__all__ = ["ConlluLabel", "ProbeTexts", "read_probe_conllu"]

ConlluLabel = Literal["upos", "xpos", "deprel", "head", "depth", "arc"]
"""A label of words that a CoNLL-U file has: universal or language-specific part of speech, relation to the head, place of the
head relative to the word ("-2", "+1", "root"), and number of steps from the word to the root ("0", "1"); or the
relation of a pair, each word and its head."""


class ProbeTexts(PartialItems[ProbeText]):
    """The sentences read from a file, of which some could not be."""


def read_probe_conllu(path: File, label: ConlluLabel = "upos", *, limit: SupportsIndex | None = None) -> ProbeTexts:
    """Reads the words of a CoNLL-U file with their labels, for `train_probe`.

    "arc" pairs each word with its head, but for the root. Words without a label ("_") are left out, and so is all but the first
    of several words that are written as one. A sentence with a line that can't be read is left out and reported in `problems`;
    the others are read. `limit` reads that many. Raises OSError for a file that can't be read, and InvalidArgument if no
    sentence of it can be.
    """
    label_of = validation.choice("label", label, LABELS)
    found = ProbeTexts()
    read_sentences(path, limit, lambda sentence: _text(sentence, label_of), found)
    return found


def _text(sentence: Sentence, label_of: Callable[[Sentence, int], str]) -> ProbeText:
    labels: dict[int, Label] = {}
    for number in sentence.rows:
        name, place = label_of(sentence, number), sentence.places[number]
        if not name:
            raise BadLine(sentence.lines[number], 'has no label; write "_" for none')
        if name == "_":
            continue
        other = _head_place(sentence, number) if label_of is LABELS["arc"] else None
        if label_of is not LABELS["arc"] or other not in (None, place):
            labels.setdefault(place, Label(name, *sentence.spans[place], None if other is None else sentence.spans[other]))
    return ProbeText(sentence.text, tuple(labels.values()))


def _head(sentence: Sentence, number: int) -> str:
    head = sentence.rows[number][6]
    return head if head == "_" else "root" if head == "0" else f"{int(head) - number:+d}"


def _head_place(sentence: Sentence, number: int) -> int | None:
    """Returns the index of the head's place; None for the root and a word without a head."""
    head = sentence.rows[number][6]
    return None if head in ("0", "_") else sentence.places[int(head)]


def _depth(sentence: Sentence, number: int) -> str:
    steps, head = 0, sentence.rows[number][6]
    while head not in ("0", "_"):
        steps, head = steps + 1, sentence.rows[int(head)][6]
        if steps > len(sentence.rows):
            raise BadLine(sentence.lines[number], "is below itself: its heads go round in a circle")
    return head if head == "_" else str(steps)


LABELS: dict[str, Callable[[Sentence, int], str]] = {
    "upos": lambda sentence, number: sentence.rows[number][3],
    "xpos": lambda sentence, number: sentence.rows[number][4],
    "deprel": lambda sentence, number: sentence.rows[number][7],
    "arc": lambda sentence, number: sentence.rows[number][7],
    "head": _head,
    "depth": _depth,
}
