"""Perturbs sentences of a treebank around a masked verb: words are shuffled, or the subject, the object or what is far is left
out (after Ettinger 2020). Beside each perturbed sentence stands one that is whole, in which the words concerned are others."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Literal, get_args

from bertscope.values.display import record

from bertscope_workbench.papers.items.contrasts import MASK
from bertscope_workbench.readers.conllu import Sentence

Kind = Literal["shuffle", "local-shuffle", "drop-subject", "drop-object", "truncate"]
KINDS: tuple[Kind, ...] = get_args(Kind)
FORM, UPOS, FEATS, HEAD, DEPREL = 1, 3, 5, 6, 7
CONTENT = ("NOUN", "VERB", "ADJ", "ADV", "PROPN", "NUM")
WINDOW = 3
"""Words that a local shuffle puts into another order among themselves."""
SEED = 0

Pools = Mapping[tuple[str, str], Sequence[str]]
"""Words by part of speech and features."""


@record
class Clause:
    """The words of a sentence whose main word is a verb with a subject and an object."""

    words: tuple[str, ...]
    """Without final punctuation; the first one lower-cased unless it is a name."""
    kinds: tuple[tuple[str, str], ...]
    """Part of speech and features of each."""
    verb: int
    """Place of the verb."""
    subject: frozenset[int]
    """Places of the subject's words."""
    object: frozenset[int]
    """Places of the object's words."""


@record
class Perturbed:
    """A sentence with a masked verb, perturbed, and with other words."""

    whole: str
    perturbed: str
    other_words: str
    """The whole sentence in which those content words that the perturbation moves or leaves out are replaced by others of the
    same part of speech and the same features."""


def clause(sentence: Sentence) -> Clause | None:
    """Returns the main clause of a sentence; None unless its root is a verb with a subject and an object that don't hold it, or
    if words of it are written as one."""
    numbers = sorted(sentence.rows)
    if len(set(sentence.places.values())) < len(numbers):
        return None
    while numbers and sentence.rows[numbers[-1]][UPOS] == "PUNCT":
        numbers.pop()
    rows = [sentence.rows[number] for number in numbers]
    place = {number: index for index, number in enumerate(numbers)}
    heads = [place.get(int(row[HEAD]), -1) if row[HEAD].isdigit() else -1 for row in rows]
    roots = [index for index, row in enumerate(rows) if row[DEPREL] == "root" and row[UPOS] == "VERB"]
    if len(roots) != 1:
        return None
    (verb,) = roots
    parts = [
        [index for index, row in enumerate(rows) if heads[index] == verb and row[DEPREL] == name] for name in ("nsubj", "obj")
    ]
    if not all(parts):
        return None
    words = [row[FORM] for row in rows]
    if rows[0][UPOS] != "PROPN" and words[0] != "I":
        words[0] = words[0].lower()
    subject, obj = (frozenset(_below(part[0], heads)) for part in parts)
    return Clause(tuple(words), tuple((row[UPOS], row[FEATS]) for row in rows), verb, subject, obj)


def pools(clauses: Sequence[Clause]) -> Pools:
    """Returns the content words of clauses by part of speech and features."""
    found: dict[tuple[str, str], dict[str, None]] = {}
    for each in clauses:
        for word, kind in zip(each.words, each.kinds, strict=True):
            if kind[0] in CONTENT:
                found.setdefault(kind, {})[word] = None
    return {kind: list(words) for kind, words in found.items()}


def perturb(given: Clause, kind: Kind, words: Pools, number: int = 0) -> Perturbed | None:
    """Returns a clause perturbed; None if it stays what it is, or if none of the words concerned can be replaced.

    `number` is the clause's own: the same one is always perturbed in the same way.
    """
    generator = Random(f"{SEED} {number} {kind}")  # noqa: S311  sentences, not secrets
    masked = [MASK if place == given.verb else word for place, word in enumerate(given.words)]
    order = _order(given, kind, generator)
    concerned = {place for place in range(len(masked)) if kind in ("shuffle", "local-shuffle") or place not in order}
    other = list(masked)
    for place in sorted(concerned - {given.verb}):
        choice = [word for word in words.get(given.kinds[place], ()) if word != given.words[place]]
        if given.kinds[place][0] in CONTENT and choice:
            other[place] = generator.choice(choice)
    if order == list(range(len(masked))) or other == masked:
        return None
    return Perturbed(_text(masked), _text([masked[place] for place in order]), _text(other))


def _order(given: Clause, kind: Kind, generator: Random) -> list[int]:
    """Returns the places that are left, in their new order."""
    places = list(range(len(given.words)))
    if kind == "shuffle":
        generator.shuffle(places)
    elif kind == "local-shuffle":
        windows = [places[start : start + WINDOW] for start in range(0, len(places), WINDOW)]
        for window in windows:
            generator.shuffle(window)
        places = [place for window in windows for place in window]
    elif kind == "truncate":
        near = sorted(places, key=lambda place: abs(place - given.verb))[: (len(places) + 1) // 2]
        places = sorted(near)
    else:
        left_out = given.subject if kind == "drop-subject" else given.object
        places = [place for place in places if place not in left_out]
    return places


def _below(top: int, heads: Sequence[int]) -> list[int]:
    """Returns a word and all words that depend on it."""
    found = [top]
    for word in found:
        found += [index for index, head in enumerate(heads) if head == word]
    return found


def _text(words: Sequence[str]) -> str:
    return " ".join(words) + " ."
