"""Reads treebanks: CoNLL-U files of Universal Dependencies, and PropBank files as Universal Propositions ships them.

A function for each kind of question: pairs of linked words, words with features, words with a label to predict, trees.

Files are UTF-8: a word in each line, ten columns with tabs between them, a blank line after each sentence. PropBank files
have more columns: the sense of a predicate, and one for each predicate of the sentence with the roles of its arguments.

Words get their exact place in the sentence's `# text`, or in a text that is put together from the words. The parts of a word
that was split ("du" = "de" + "le") have their own places if they are written out in it ("don't" = "do" + "n't"), and are one
word otherwise. A sentence with a line that can't be read is left out and reported in `problems`; the others are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal, SupportsIndex

from bertscope import FeatureText, ProbeText, RelationText, TreeText, TreeWord
from bertscope.errors import invalid_argument
from bertscope.questions.attention.marked_texts import Mark, WordPair
from bertscope.values import validation
from bertscope.values.labelled_texts import Label
from bertscope.values.validation import File

from bertscope_workbench.readers.conllu import Sentence, read_sentences
from bertscope_workbench.readers.item_lists import BadLine, PartialItems

__all__ = [
    "ConlluLabel",
    "ProbeTexts",
    "TreeTexts",
    "read_conllu",
    "read_conllu_features",
    "read_probe_conllu",
    "read_propbank",
    "read_tree_conllu",
]

UPOS, XPOS, FEATS, HEAD, DEPREL = 3, 4, 5, 6, 7
"""Columns of a word."""
PREDICATES, SENSE = 11, 10
"""Columns before those of the predicates' arguments, and the one with the predicate's sense."""
NOT_ROLES = ("_", "V", "C-V")
"""Values of a predicate's column that are no argument: nothing, and the predicate itself."""
FEATURES = {
    "nsubj": "subject", "csubj": "subject", "obj": "object", "iobj": "object", "punct": "punctuation",
}  # fmt: skip
"""Features that come from the dependency of a word."""
NEGATION = "Polarity=Neg"
PUNCTUATION = "PUNCT"

ConlluLabel = Literal["upos", "xpos", "deprel", "head", "depth", "index", "arc"]
"""A label of words that a CoNLL-U file has: universal or language-specific part of speech, relation to the head, place of the
head relative to the word ("-2", "+1", "root"), number of steps from the word to the root ("0", "1"), and number of the word in
the sentence from 1; or the relation of a pair, each word and its head."""


class ProbeTexts(PartialItems[ProbeText]):
    """The sentences read from a file, of which some could not be."""


class TreeTexts(PartialItems[TreeText]):
    """The sentences read from a file, of which some could not be."""


def read_conllu(path: File, *, subtypes: bool = True, limit: SupportsIndex | None = None) -> PartialItems[RelationText]:
    """Reads the dependencies of a CoNLL-U file, for `score_relations`: pairs of a word and one that depends on it, by relation.

    Without `subtypes`, "nsubj:pass" is "nsubj". `limit` reads that many sentences. Raises OSError for a file that can't be
    read, and InvalidArgument if no sentence of it can be.
    """

    validation.flag("subtypes", subtypes)
    return read_sentences(path, limit, lambda sentence: relation_text(sentence, subtypes), PartialItems[RelationText]())


def read_propbank(path: File, *, limit: SupportsIndex | None = None) -> PartialItems[RelationText]:
    """Reads the roles of a PropBank file, for `score_relations`: from a predicate to its argument, named by the role ("ARG0").

    A predicate's own parts ("V", "C-V") are no arguments. `limit` and errors are as in `read_conllu`.
    """

    def roles(sentence: Sentence) -> RelationText:
        predicates = [number for number, row in sentence.rows.items() if len(row) > SENSE and row[SENSE] != "_"]
        for number, row in sentence.rows.items():
            if predicates and len(row) != PREDICATES + len(predicates):
                wanted = f"{PREDICATES + len(predicates)} belong where the sentence has {len(predicates)} predicates"
                raise BadLine(sentence.lines[number], f"has {len(row)} columns; {wanted}")
            for role in row[PREDICATES:]:
                _require(sentence, number, "role", role)
        pairs = [
            (row[PREDICATES + index], predicate, number)
            for number, row in sentence.rows.items()
            for index, predicate in enumerate(predicates)
            if row[PREDICATES + index] not in NOT_ROLES
        ]
        return _related(sentence, pairs)

    found = read_sentences(path, limit, roles, PartialItems[RelationText]())
    if not any(text.pairs for text in found):
        raise invalid_argument(str(path), "has no roles of PropBank, only dependencies: read_conllu reads those")
    return found


def read_conllu_features(path: File, *, limit: SupportsIndex | None = None) -> PartialItems[FeatureText]:
    """Reads words with features of a CoNLL-U file, for `score_features`.

    Features are parts of speech, as the file has them ("NOUN", "PRON", "VERB"), "subject" (nsubj, csubj), "object" (obj, iobj),
    "punctuation" (punct) and "negation" (Polarity=Neg). `limit` and errors are as in `read_conllu`.
    """
    return read_sentences(path, limit, feature_text, PartialItems[FeatureText]())


def read_probe_conllu(path: File, label: ConlluLabel = "upos", *, limit: SupportsIndex | None = None) -> ProbeTexts:
    """Reads the words of a CoNLL-U file with their labels, for `train_probe`.

    "arc" pairs each word with its head, but for the root. Words without a label ("_") are left out, and so is all but the first
    of several words that are written as one. A sentence with a line that can't be read is left out and reported in `problems`;
    the others are read. `limit` reads that many. Raises OSError for a file that can't be read, and InvalidArgument if no
    sentence of it can be.
    """
    validation.choice("label", label, LABELS)
    return read_sentences(path, limit, lambda sentence: probe_text(sentence, label), ProbeTexts())


def read_tree_conllu(path: File, *, limit: SupportsIndex | None = None) -> TreeTexts:
    """Reads the trees of a CoNLL-U file, for `train_structural_probe`.

    Words of the part of speech PUNCT are marked as punctuation. Of several words that are written as one, all but the first are
    in the tree without a place. A sentence with a line that can't be read, or whose heads make up no tree, is left out and
    reported in `problems`; the others are read. `limit` reads that many. Raises OSError for a file that can't be read, and
    InvalidArgument if no sentence of it can be.
    """
    return read_sentences(path, limit, tree_text, TreeTexts())


def relation_text(sentence: Sentence, subtypes: bool = True) -> RelationText:
    """Returns a sentence with its dependencies, as `read_conllu` reads them. Raises BadLine."""
    pairs = []
    for number, row in sentence.rows.items():
        head, relation = int(row[HEAD]) if row[HEAD] != "_" else 0, row[DEPREL]
        if head:
            _require(sentence, number, "relation", relation)
            pairs.append((relation if subtypes else relation.partition(":")[0], head, number))
    return _related(sentence, pairs)


def feature_text(sentence: Sentence) -> FeatureText:
    """Returns a sentence with its features, as `read_conllu_features` reads them. Raises BadLine."""
    marks: dict[Mark, None] = {}
    for number, row in sentence.rows.items():
        _require(sentence, number, "part of speech", row[UPOS])
        span = sentence.spans[sentence.places[number]]
        feature, negation = FEATURES.get(row[DEPREL].partition(":")[0], "_"), NEGATION in row[FEATS].split("|")
        names = [row[UPOS], feature, "negation" if negation else "_"]
        marks |= {Mark(name, *span): None for name in names if name != "_"}
    return FeatureText(sentence.text, tuple(marks))


def _require(sentence: Sentence, number: int, what: str, value: str) -> None:
    if not value:
        raise BadLine(sentence.lines[number], f'has no {what}; write "_" for none')


def _related(sentence: Sentence, pairs: Iterable[tuple[str, int, int]]) -> RelationText:
    """Returns the sentence with pairs of words by their numbers; pairs within one word are left out."""
    placed = (WordPair(name, sentence.places[source], sentence.places[target]) for name, source, target in pairs)
    found = dict.fromkeys(pair for pair in placed if pair.source != pair.target)
    return RelationText(sentence.text, tuple(found), tuple(sentence.spans))


def probe_text(sentence: Sentence, label: ConlluLabel) -> ProbeText:
    """Returns a sentence with the labels of its words, as `read_probe_conllu` reads them. Raises BadLine."""
    label_of = LABELS[label]
    labels: dict[int, Label] = {}
    for number in sentence.rows:
        name, place = label_of(sentence, number), sentence.places[number]
        _require(sentence, number, "label", name)
        if name == "_":
            continue
        other = _head_place(sentence, number) if label_of is LABELS["arc"] else None
        if label_of is not LABELS["arc"] or other not in (None, place):
            labels.setdefault(place, Label(name, *sentence.spans[place], None if other is None else sentence.spans[other]))
    return ProbeText(sentence.text, tuple(labels.values()))


def _head(sentence: Sentence, number: int) -> str:
    head = sentence.rows[number][HEAD]
    return head if head == "_" else "root" if head == "0" else f"{int(head) - number:+d}"


def _head_place(sentence: Sentence, number: int) -> int | None:
    """Returns the index of the head's place; None for the root and a word without a head."""
    head = sentence.rows[number][HEAD]
    return None if head in ("0", "_") else sentence.places[int(head)]


def _depth(sentence: Sentence, number: int) -> str:
    steps, head = 0, sentence.rows[number][HEAD]
    while head not in ("0", "_"):
        steps, head = steps + 1, sentence.rows[int(head)][HEAD]
        if steps > len(sentence.rows):
            raise BadLine(sentence.lines[number], "is below itself: its heads go round in a circle")
    return head if head == "_" else str(steps)


def tree_text(sentence: Sentence) -> TreeText:
    """Returns a sentence with its tree, as `read_tree_conllu` reads it. Raises BadLine for heads that make up none."""
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


LABELS: dict[str, Callable[[Sentence, int], str]] = {
    "upos": lambda sentence, number: sentence.rows[number][UPOS],
    "xpos": lambda sentence, number: sentence.rows[number][XPOS],
    "deprel": lambda sentence, number: sentence.rows[number][DEPREL],
    "arc": lambda sentence, number: sentence.rows[number][DEPREL],
    "head": _head,
    "depth": _depth,
    "index": lambda sentence, number: str(sentence.places[number] + 1),
}
