"""Puts verbs of the generated treebank into the form that subject, tense and auxiliaries ask for, and clauses into order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from bertscope_workbench.primer.data.phrases import Phrase, Word
from bertscope_workbench.primer.data.words import BE_VERB, DO, HAVE, MODALS, Verb

CONTRACTED = {"will": "wo", "can": "ca"}
"""Auxiliaries that change before "n't"."""
UNCONTRACTED = ("am", "might")
"""Auxiliaries that nobody contracts."""


@dataclass
class VerbGroup:
    """A verb with its auxiliaries."""

    auxiliaries: list[Word]
    """In order; the first one is finite. Empty if the verb is."""
    negation: list[Word]
    """Words behind the first auxiliary."""
    verb: Word
    """The verb; of a copular clause what is said."""


def verb_group(
    verb: Verb,
    tense: str,
    subject: Phrase,
    helpers: Sequence[tuple[Verb, str]],
    *,
    negated: str = "",
    inverted: bool = False,
    predicate: Word | None = None,
) -> VerbGroup:
    """Returns a verb in the form that its helpers ask for, the first finite: "Past", "Pres" or "Fut".

    Args:
        verb: The verb; of a copular clause "be".
        tense: The tense.
        subject: The phrase that the finite word agrees with.
        helpers: Auxiliaries with their relations, in order.
        negated: "" for none, "not" or "n't".
        inverted: Whether the finite word has to be an auxiliary, as in questions.
        predicate: The head of a copular clause, to which `verb` is the copula.
    """
    chain = [(Verb("will", "will", ""), "aux"), *helpers] if tense == "Fut" else list(helpers)
    if predicate is not None:
        chain.append((verb, "cop"))
    if not chain and (negated or inverted):
        chain.append((DO, "aux"))
    if predicate is None:
        chain.append((verb, "root"))
    words: list[Word] = []
    before: tuple[Verb, str] | None = None
    for one, deprel in chain:
        words.append(_in_form(one, deprel, before, tense, subject))
        before = one, deprel
    main = predicate if predicate is not None else words.pop()
    for word in words:
        word.head = main
    negation = [Word(negated, "not", "PART", feats="Polarity=Neg").under(main, "advmod")] if negated else []
    if negated == "n't":
        if words[0].form in UNCONTRACTED:
            negation[0].form = "not"
        else:
            words[0].form, words[0].glued = CONTRACTED.get(words[0].form, words[0].form), True
    return VerbGroup(words, negation, main)


def _in_form(verb: Verb, deprel: str, before: tuple[Verb, str] | None, tense: str, subject: Phrase) -> Word:
    """Returns a verb in the form that the one before it asks for."""
    upos = "VERB" if deprel == "root" else "AUX"
    if before is None:
        finite = "Pres" if tense == "Fut" else tense
        form, number = verb.finite(finite, subject.person, subject.plural), "Plur" if subject.plural else "Sing"
        feats = "VerbForm=Fin" if verb.lemma in MODALS else (
            f"Mood=Ind|Number={number}|Person={subject.person}|Tense={finite}|VerbForm=Fin"
        )  # fmt: skip
    elif before[0].lemma in (*MODALS, "do"):
        form, feats = verb.lemma, "VerbForm=Inf"
    elif before[0] is HAVE or before[1] == "aux:pass":
        form, feats = verb.participle, "Tense=Past|VerbForm=Part"
    else:
        form, feats = "being" if verb is BE_VERB else verb.gerund, "Tense=Pres|VerbForm=Part"
    return Word(form, verb.lemma, upos, deprel, None, feats)


@dataclass
class Clause:
    """A clause whose parts can be put in order."""

    group: VerbGroup
    """The verb with its auxiliaries."""
    tense: str
    """ "Past", "Pres" or "Fut"."""
    subject: list[Word] = field(default_factory=list)
    adverbs: list[Word] = field(default_factory=list)
    """Words behind the first auxiliary, or before the verb."""
    before: list[Word] = field(default_factory=list)
    """Words right before a predicate."""
    after: list[Word] = field(default_factory=list)
    agreeing: Phrase | None = None
    """The subject as a phrase."""

    @property
    def head(self) -> Word:
        """The word that all others are below."""
        return self.group.verb

    def words(self, *, inverted: bool = False) -> list[Word]:
        """Returns its words in order; inverted, the first auxiliary is first."""
        first, others = self.group.auxiliaries[:1], self.group.auxiliaries[1:]
        negation, end = self.group.negation, [*self.adverbs, *others, *self.before, self.head, *self.after]
        if not inverted:
            return [*self.subject, *first, *negation, *end]
        if first and first[0].glued:
            return [*first, *negation, *self.subject, *end]
        return [*first, *self.subject, *negation, *end]
