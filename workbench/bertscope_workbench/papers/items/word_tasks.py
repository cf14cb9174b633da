"""Labels of words and pairs of words that probes are asked for: what a treebank has, and chunks and ancestors made from it."""

from collections.abc import Callable

from bertscope import ProbeText
from bertscope.values.labelled_texts import Label

from bertscope_workbench.papers.items.treebank import by_column, entity_labels, role_labels
from bertscope_workbench.readers.conllu import Sentence
from bertscope_workbench.readers.treebanks import DEPREL, HEAD, UPOS

WITHIN_CHUNK = ("det", "amod", "nummod", "nmod:poss", "compound", "flat", "aux", "aux:pass", "goeswith")
"""Relations of words that belong to the chunk of their head."""
CHUNKS = {
    "NOUN": "NP", "PROPN": "NP", "PRON": "NP", "NUM": "NP", "VERB": "VP", "AUX": "VP", "ADP": "PP", "ADV": "ADVP",
    "ADJ": "ADJP", "SCONJ": "SBAR",
}  # fmt: skip
"""Type of a chunk by the part of speech of its head, as in CoNLL-2000 (Tjong Kim Sang and Buchholz 2000)."""
ROOT = "root"


def chunk_labels(sentence: Sentence) -> ProbeText:
    """Returns a sentence whose words are labelled by their chunk: "B-NP", "I-NP", "B-VP", ..., "O".

    A chunk is a head with its determiners, adjectives, numbers, owners, compounds and auxiliaries, as far as they stand
    together: made from dependencies, so that any treebank has it.
    """
    labels: dict[int, Label] = {}
    before = 0
    for number, row in sentence.rows.items():
        head = _chunk_head(sentence, number)
        kind = CHUNKS.get(sentence.rows[head][UPOS])
        if row[UPOS] == "PART" and head == number:  # the mark of an owner, "to", "not"
            kind = None
        name = "O" if kind is None else f"{'I' if head == before else 'B'}-{kind}"
        before = head
        place = sentence.places[number]
        labels.setdefault(place, Label(name, *sentence.spans[place]))
    return ProbeText(sentence.text, tuple(labels.values()))


def _chunk_head(sentence: Sentence, number: int) -> int:
    row, steps = sentence.rows[number], 0
    while steps < len(sentence.rows) and int(row[HEAD]) > 0:
        own_adverb = row[DEPREL] == "advmod" and sentence.rows[int(row[HEAD])][UPOS] == "ADJ"
        mark = row[DEPREL] == "case" and row[UPOS] == "PART"
        if row[DEPREL] not in WITHIN_CHUNK and not own_adverb and not mark:
            break
        number, steps = int(row[HEAD]), steps + 1
        row = sentence.rows[number]
    return number


def ancestor_labels(steps: int) -> Callable[[Sentence], ProbeText]:
    """Returns the function that labels each word with a relation up the tree: 0 steps up is its own, 1 its head's, 2 that of
    the head's head; "above" beyond the root. Punctuation is left out."""

    def label(sentence: Sentence) -> ProbeText:
        labels: dict[int, Label] = {}
        for number, row in sentence.rows.items():
            if row[UPOS] == "PUNCT":
                continue
            place, at = sentence.places[number], number
            for _ in range(steps):
                at = int(sentence.rows[at][HEAD]) if at else 0
            name = sentence.rows[at][DEPREL].partition(":")[0] if at else "above"
            labels.setdefault(place, Label(name, *sentence.spans[place]))
        return ProbeText(sentence.text, tuple(labels.values()))

    return label


WORD_TASKS: dict[str, Callable[[Sentence], ProbeText]] = {
    "upos": by_column("upos"),
    "chunk": chunk_labels,
    "arc": by_column("arc"),
    "place of the head": by_column("head"),
    "depth of the word": by_column("depth"),
    "role": role_labels,
    "entity": entity_labels,
    "own relation": ancestor_labels(0),
    "head's relation": ancestor_labels(1),
    "head's head's relation": ancestor_labels(2),
}
"""By name: labels of a sentence."""
GENERATED_ONLY = ("role", "entity")
"""Tasks that only our own sentences have."""


def labels_of(text: ProbeText) -> list[Label]:
    """Returns the labels of a text, with their places."""
    return [Label(*one) for one in text.labels]


def marked(text: ProbeText, label: Label) -> str:
    """Returns the part of a single text that a label is of."""
    return str(text.text)[label.start : label.end]
