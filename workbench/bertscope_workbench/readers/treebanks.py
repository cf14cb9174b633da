"""Reads treebanks: CoNLL-U files of Universal Dependencies, and PropBank files as Universal Propositions ships them.

Files are UTF-8: a word in each line, ten columns with tabs between them, a blank line after each sentence. PropBank files
have more columns: the sense of a predicate, and one for each predicate of the sentence with the roles of its arguments.

Words get their exact place in the sentence's `# text`, or in a text that is put together from the words. The parts of a word
that was split ("du" = "de" + "le") have their own places if they are written out in it ("don't" = "do" + "n't"), and are one
word otherwise. A sentence with a line that can't be read is left out and reported in `problems`; the others are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import SupportsIndex, TypeVar

from bertscope import FeatureText, RelationText
from bertscope.errors import invalid_argument
from bertscope.questions.attention.marked_texts import Mark, WordPair
from bertscope.values import validation
from bertscope.values.validation import File

from bertscope_workbench.readers.conllu import BadLine, Sentence, read_sentences
from bertscope_workbench.readers.files import PartialItems

__all__ = ["read_conllu", "read_conllu_features", "read_propbank"]

T = TypeVar("T")

PREDICATES, SENSE = 11, 10
"""Columns before those of the predicates' arguments, and the one with the predicate's sense."""
NOT_ROLES = ("_", "V", "C-V")
"""Values of a predicate's column that are no argument: nothing, and the predicate itself."""
FEATURES = {
    "nsubj": "subject", "csubj": "subject", "obj": "object", "iobj": "object", "punct": "punctuation",
}  # fmt: skip
"""Features that come from the dependency of a word."""
NEGATION = "Polarity=Neg"


class Sentences(PartialItems[T]):
    """The sentences of a treebank; `lines` are the numbers of their first words' lines."""


def read_conllu(path: File, *, subtypes: bool = True, limit: SupportsIndex | None = None) -> Sentences[RelationText]:
    """Reads the dependencies of a CoNLL-U file, for `score_relations`: pairs of a word and one that depends on it, by relation.

    Without `subtypes`, "nsubj:pass" is "nsubj". `limit` reads that many sentences. Raises OSError for a file that can't be
    read, and InvalidArgument if no sentence of it can be.
    """

    def dependencies(sentence: Sentence) -> RelationText:
        pairs = []
        for number, row in sentence.rows.items():
            head, relation = int(row[6]) if row[6] != "_" else 0, row[7]
            if head:
                _require(sentence, number, "relation", relation)
                pairs.append((relation if subtypes else relation.partition(":")[0], head, number))
        return _related(sentence, pairs)

    validation.flag("subtypes", subtypes)
    return _read(path, limit, dependencies)


def read_propbank(path: File, *, limit: SupportsIndex | None = None) -> Sentences[RelationText]:
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

    found = _read(path, limit, roles)
    if not any(text.pairs for text in found):
        raise invalid_argument(str(path), "has no roles; dependencies are read with read_conllu")
    return found


def read_conllu_features(path: File, *, limit: SupportsIndex | None = None) -> Sentences[FeatureText]:
    """Reads words with features of a CoNLL-U file, for `score_features`.

    Features are parts of speech, as the file has them ("NOUN", "PRON", "VERB"), "subject" (nsubj, csubj), "object" (obj, iobj),
    "punctuation" (punct) and "negation" (Polarity=Neg). `limit` and errors are as in `read_conllu`.
    """

    def features(sentence: Sentence) -> FeatureText:
        marks: dict[Mark, None] = {}
        for number, row in sentence.rows.items():
            _require(sentence, number, "part of speech", row[3])
            span = sentence.spans[sentence.places[number]]
            names = [row[3], FEATURES.get(row[7].partition(":")[0], "_"), "negation" if NEGATION in row[5].split("|") else "_"]
            marks |= {Mark(name, *span): None for name in names if name != "_"}
        return FeatureText(sentence.text, tuple(marks))

    return _read(path, limit, features)


def _require(sentence: Sentence, number: int, what: str, value: str) -> None:
    if not value:
        raise BadLine(sentence.lines[number], f'has no {what}; write "_" for none')


def _related(sentence: Sentence, pairs: Iterable[tuple[str, int, int]]) -> RelationText:
    """Returns the sentence with pairs of words by their numbers; pairs within one word are left out."""
    placed = (WordPair(name, sentence.places[source], sentence.places[target]) for name, source, target in pairs)
    found = dict.fromkeys(pair for pair in placed if pair.source != pair.target)
    return RelationText(sentence.text, tuple(found), tuple(sentence.spans))


def _read(path: File, limit: SupportsIndex | None, item: Callable[[Sentence], T]) -> Sentences[T]:
    found = Sentences[T]()
    read_sentences(path, limit, item, found)
    return found
