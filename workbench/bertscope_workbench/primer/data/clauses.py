"""Builds the clauses and sentences of the generated treebank."""

from __future__ import annotations

from collections.abc import Sequence

from bertscope_workbench.primer.data.phrases import Phrase, Phrases, Word
from bertscope_workbench.primer.data.verb_groups import Clause, verb_group
from bertscope_workbench.primer.data.words import BE_VERB, HAVE, Noun, Verb

FRAMES = (
    ("transitive",) * 8 + ("passive",) * 3 + ("intransitive",) * 4 + ("ditransitive",) * 2 + ("copular",) * 3 + ("controlled",)
)
"""Frames of a clause, as often as they are drawn."""
MOVING = ("run", "swim", "walk", "travel", "return", "fly", "jump", "arrive")
MODAL_HELPERS = tuple((Verb(form, form, ""), "aux") for form in ("can", "must", "might", "should"))
CONNECTIVES = ("because", "when", "while", "although", "after", "before", "if")


class Clauses(Phrases):
    """Draws clauses and sentences."""

    def sentence(self) -> list[Word]:
        """Returns the words of a sentence, its punctuation included."""
        makers = [(self._declarative, 13), (self._complement, 3), (self._coordinated, 3), (self._subordinated, 3)]
        makers += [(self._yes_no_question, 2), (self._wh_question, 2), (self._order, 1), (self._existential, 1)]
        (maker,) = self.random.choices([make for make, _ in makers], [weight for _, weight in makers])
        words, head, mark = maker()
        words[-1].glued = True
        return [*words, Word(mark, mark, "PUNCT").under(head, "punct")]

    def clause(
        self,
        frame: str,
        tense: str,
        *,
        subject: Phrase | None = None,
        verb: Verb | None = None,
        lone: bool = False,
        inverted: bool = False,
        depth: int = 0,
        plain: bool = False,
        theme: Phrase | None = None,
        gap: bool = False,
    ) -> Clause:
        """Returns a clause.

        Args:
            frame: What the verb takes: "transitive", "passive", "intransitive", "ditransitive", "copular", "controlled".
            tense: "Past", "Pres" or "Fut".
            subject: Its subject; drawn unless given.
            verb: Its verb; drawn unless given.
            lone: Whether nothing but arguments follows the verb.
            inverted: Whether it begins with an auxiliary.
            depth: How many relative clauses may be in one another.
            plain: Whether there is neither negation nor an auxiliary of aspect.
            theme: Its object, or the subject of a passive; drawn unless given.
            gap: Whether the object is left out, as it stands elsewhere.
        """
        if frame == "copular":
            return self._copular(tense, subject, inverted)
        verb = verb or self.pick(self.lexicon.verbs["transitive" if frame == "passive" else frame])
        passive = frame == "passive"
        if subject is None:
            subject = self.argument(verb.objects if passive else verb.subjects, subject=True, bare=depth == 0)
            self._relative(subject, depth)
        helpers = ([] if plain else self._aspect(tense)) + ([(BE_VERB, "aux:pass")] if passive else [])
        negated = "" if plain or not self.chance(0.12) else self.pick(("not", "n't"))
        group = verb_group(verb, tense, subject, helpers, negated=negated, inverted=inverted)
        made = Clause(group, tense, agreeing=subject)
        role = verb.roles[1] if passive else verb.roles[0]
        made.subject = subject.under(group.verb, "nsubj:pass" if passive else "nsubj", role)
        if not negated and not inverted and self.chance(0.12):
            adverb = "never" if self.chance(0.15) else self.pick(self.lexicon.lists["adverbs"]["before"])
            feats = "Polarity=Neg" if adverb == "never" else "_"
            made.adverbs = [Word(adverb, adverb, "ADV", feats=feats).under(group.verb, "advmod")]
        made.after = self._arguments(frame, verb, group.verb, depth, theme, gap)
        if not lone:
            made.after += self._adjuncts(frame, verb, group.verb, tense)
        return made

    def _arguments(self, frame: str, verb: Verb, head: Word, depth: int, theme: Phrase | None, gap: bool) -> list[Word]:
        if frame == "passive":
            if not self.chance(0.45):
                return []
            return self.oblique("by", self.argument(verb.subjects, bare=True), head, verb.roles[0])
        if frame == "controlled":
            inner = self.clause(
                "transitive" if self.chance(0.6) else "intransitive", "Pres", subject=_nobody(), plain=True, lone=True
            )
            inner.head.form, inner.head.feats = inner.head.lemma, "VerbForm=Inf"
            return [Word("to", "to", "PART").under(inner.head, "mark"), inner.head.under(head, "xcomp"), *inner.after]
        if frame == "intransitive" or gap:
            return []
        if theme is None:
            theme = self.argument(verb.objects, bare=depth == 0)
            self._relative(theme, depth)
        if frame == "ditransitive":
            receiver = self.argument(["person"], bare=True)
            if self.chance(0.5):
                return [*receiver.under(head, "iobj", verb.roles[2]), *theme.under(head, "obj", verb.roles[1])]
            return [*theme.under(head, "obj", verb.roles[1]), *self.oblique("to", receiver, head, verb.roles[2])]
        return theme.under(head, "obj", verb.roles[1])

    def _adjuncts(self, frame: str, verb: Verb, head: Word, tense: str) -> list[Word]:
        words: list[Word] = []
        experiencer = verb.roles[0] == "Experiencer"
        if not experiencer and self.chance(0.18):
            kind = "after" if frame == "intransitive" and self.chance(0.6) else "manner"
            adverb = self.pick(self.lexicon.lists["adverbs"][kind])
            words.append(Word(adverb, adverb, "ADV").under(head, "advmod"))
        if frame == "intransitive" and verb.lemma in MOVING and self.chance(0.75):
            words += self.place(head, goal=verb.lemma != "arrive")
        elif self.chance(0.3 if frame != "controlled" else 0.1):
            words += self.place(head)
        if self.chance(0.28):
            words += self.time(head, tense)
        return words

    def _copular(self, tense: str, subject: Phrase | None, inverted: bool) -> Clause:
        subject = subject or self.argument([self.pick(tuple(self.lexicon.adjectives))], subject=True)
        before, after, kind = [], list[Word](), subject.kind
        if kind == "person" and not subject.plural and self.chance(0.35):
            named = self.common(self.noun(["person"]), bare=True, indefinite=True)
            *before, predicate = named.words
        elif kind in ("person", "animal", "vehicle", "tool", "furniture") and self.chance(0.3):
            place = self.common(self.noun(["building"]), bare=True)
            *inside, predicate = place.words
            before = [Word("in", "in", "ADP").under(predicate, "case"), *inside]
        else:
            *before, predicate = self.adjective(kind)
        group = verb_group(
            BE_VERB, tense, subject, [], negated=self.pick(("not", "n't")) if self.chance(0.12) else "", inverted=inverted,
            predicate=predicate,
        )  # fmt: skip
        return Clause(group, tense, subject.under(predicate, "nsubj", "Theme"), [], before, after, subject)

    def _aspect(self, tense: str) -> list[tuple[Verb, str]]:
        """Returns auxiliaries of aspect or mood, mostly none."""
        if tense == "Fut" or not self.chance(0.22):
            return []
        return [self.pick([(HAVE, "aux"), (BE_VERB, "aux"), self.pick(MODAL_HELPERS)])]

    def _relative(self, phrase: Phrase, depth: int) -> None:
        """Adds a relative clause to a common noun, in a fifth of cases."""
        if depth == 0 or phrase.noun is None or not self.chance(0.2):
            return
        noun, tense = phrase.noun, self._tense()
        person = noun.kind == "person"
        as_subject = _taking(self.lexicon.verbs["transitive"], noun, "subjects")
        as_object = _taking(self.lexicon.verbs["transitive"], noun, "objects")
        if as_subject and self.chance(0.5):
            form = self.pick(("who", "that") if person else ("that", "which"))
            pronoun = Word(form, form, "PRON", feats="PronType=Rel")
            subject = Phrase([pronoun], pronoun, 3, phrase.plural)
            made = self.clause("transitive", tense, subject=subject, verb=self.pick(as_subject), lone=True)
            words = made.words()
        elif as_object:
            made = self.clause("transitive", tense, verb=self.pick(as_object), lone=True, gap=True)
            form = self.pick(("that", "whom", "") if person else ("that", "which", ""))
            words = [Word(form, form, "PRON", feats="PronType=Rel").under(made.head, "obj")] * bool(form) + made.words()
        else:
            return
        made.head.under(phrase.head, "acl:relcl")
        phrase.words = [*phrase.words, *words]

    def _tense(self) -> str:
        return self.pick(("Past",) * 6 + ("Pres",) * 4 + ("Fut",))

    def _declarative(self) -> tuple[list[Word], Word, str]:
        made = self.clause(self.pick(FRAMES), self._tense(), depth=1)
        words = made.words()
        if made.agreeing is not None and made.head.upos == "VERB" and self.chance(0.1):
            words += self._second_verb(made)
        if self.chance(0.1):
            fronted = self._fronted(made.head, made.tense, any(word.role == "Time" for word in words))
            fronted[-1].glued = True
            comma = Word(",", ",", "PUNCT").under(made.head, "punct")
            words = [*fronted, comma, *words]
        return words, made.head, "!" if self.chance(0.03) else "."

    def _second_verb(self, first: Clause) -> list[Word]:
        """Returns "and" with another verb of the same subject."""
        if first.agreeing is None or first.agreeing.kind not in ("person", "animal"):
            return []
        verbs = [verb for verb in self.lexicon.verbs["intransitive"] if first.agreeing.kind in verb.subjects]
        verb = self.pick(verbs)
        other = self.clause("intransitive", first.tense, subject=_like(first.agreeing), verb=verb, plain=True)
        conj = Word("and", "and", "CCONJ").under(other.head, "cc")
        other.head.under(first.head, "conj")
        return [conj, *other.group.auxiliaries, *other.adverbs, other.head, *other.after]

    def _fronted(self, head: Word, tense: str, timed: bool) -> list[Word]:
        if not timed and self.chance(0.6):
            return self.time(head, tense)
        adverb = self.pick(self.lexicon.lists["adverbs"]["sentence"])
        return [Word(adverb, adverb, "ADV").under(head, "advmod")]

    def _complement(self) -> tuple[list[Word], Word, str]:
        tense = self.pick(("Past", "Past", "Pres"))
        outer = self.clause("clausal", tense, lone=True, theme=_nobody(), gap=True, depth=0)
        inner = self.clause(self.pick(FRAMES), "Past" if tense == "Past" else self._tense())
        inner.head.under(outer.head, "ccomp")
        inner.head.role = "Topic"
        mark = [Word("that", "that", "SCONJ").under(inner.head, "mark")] * self.chance(0.65)
        return [*outer.words(), *mark, *inner.words()], outer.head, "."

    def _coordinated(self) -> tuple[list[Word], Word, str]:
        tense = self._tense()
        first, second = (self.clause(self.pick(FRAMES), tense, lone=True) for _ in range(2))
        second.head.under(first.head, "conj")
        form = self.pick(("and", "but", "or", "and", "but"))
        words = first.words()
        words[-1].glued = True
        comma = Word(",", ",", "PUNCT").under(second.head, "punct")
        return [*words, comma, Word(form, form, "CCONJ").under(second.head, "cc"), *second.words()], first.head, "."

    def _subordinated(self) -> tuple[list[Word], Word, str]:
        tense = self.pick(("Past", "Past", "Pres"))
        main, other = (self.clause(self.pick(FRAMES), tense, lone=True) for _ in range(2))
        form = self.pick(CONNECTIVES)
        other.head.under(main.head, "advcl")
        below = [Word(form, form, "SCONJ").under(other.head, "mark"), *other.words()]
        if self.chance(0.6):
            return [*main.words(), *below], main.head, "."
        below[-1].glued = True
        return [*below, Word(",", ",", "PUNCT").under(main.head, "punct"), *main.words()], main.head, "."

    def _yes_no_question(self) -> tuple[list[Word], Word, str]:
        made = self.clause(self.pick(FRAMES), self._tense(), inverted=True)
        return made.words(inverted=True), made.head, "?"

    def _wh_question(self) -> tuple[list[Word], Word, str]:
        tense = self.pick(("Past", "Past", "Pres", "Fut"))
        kind = self.pick(("subject", "object", "adverb"))
        if kind == "subject":
            who = Word("who", "who", "PRON", feats="PronType=Int")
            verbs = [verb for verb in self.lexicon.verbs["transitive"] if "person" in verb.subjects]
            made = self.clause("transitive", tense, subject=Phrase([who], who, kind="person"), verb=self.pick(verbs))
            return made.words(), made.head, "?"
        if kind == "object":
            verbs = [verb for verb in self.lexicon.verbs["transitive"] if "person" not in verb.objects]
            made = self.clause("transitive", tense, verb=self.pick(verbs), inverted=True, gap=True)
            asked = Word("what", "what", "PRON", feats="PronType=Int", role=self._role(made)).under(made.head, "obj")
        else:
            made = self.clause(self.pick(FRAMES[:-4]), tense, inverted=True, lone=True)
            form = self.pick(("where", "when", "why", "how"))
            asked = Word(form, form, "ADV", feats="PronType=Int").under(made.head, "advmod")
        return [asked, *made.words(inverted=True)], made.head, "?"

    def _role(self, made: Clause) -> str:
        return next(verb.roles[1] for verb in self.lexicon.verbs["transitive"] if verb.lemma == made.head.lemma)

    def _order(self) -> tuple[list[Word], Word, str]:
        verbs = [verb for verb in self.lexicon.verbs["transitive"] if "person" in verb.subjects and verb.roles[0] == "Agent"]
        made = self.clause("transitive", "Pres", subject=_nobody(), verb=self.pick(verbs), plain=True, depth=1)
        made.head.form, made.head.feats = made.head.lemma, "Mood=Imp|VerbForm=Fin"
        please = Word("please", "please", "INTJ").under(made.head, "discourse")
        return [please, *made.adverbs, made.head, *made.after], made.head, "."

    def _existential(self) -> tuple[list[Word], Word, str]:
        tense = self.pick(("Past", "Pres"))
        noun = self.noun(("person", "animal", "tool", "vehicle", "furniture"))
        plural = self.chance(0.5)
        if plural:
            form = self.pick(("two", "three", "four", "many", "some"))
            head = Word(noun.plural, noun.lemma, "NOUN", feats="Number=Plur")
            upos, deprel = ("ADJ", "amod") if form == "many" else ("DET", "det") if form == "some" else ("NUM", "nummod")
            first = Word(form, form, upos, entity="B-NUMBER" if upos == "NUM" else "").under(head, deprel)
            theme = Phrase([first, *self._adjectives(noun, head), head], head, 3, True, noun, noun.kind)
        else:
            theme = self.common(noun, bare=True, indefinite=True)
        verb = verb_group(BE_VERB, tense, theme, []).verb
        there = Word("there", "there", "PRON").under(verb, "expl")
        words = [there, verb, *theme.under(verb, "nsubj", "Theme"), *self.place(verb)]
        return words, verb, "."


def _taking(verbs: Sequence[Verb], noun: Noun, side: str) -> list[Verb]:
    """Returns the verbs that take a noun as subject or object."""
    wanted = {noun.kind, f"{noun.kind}:{noun.lemma}"}
    return [verb for verb in verbs if wanted & set(getattr(verb, side))]


def _nobody() -> Phrase:
    """Returns a subject that is not written."""
    return Phrase([], Word("", "", "PRON"))


def _like(phrase: Phrase) -> Phrase:
    """Returns a subject that is not written again, but that the verb agrees with."""
    return Phrase([], Word("", "", "PRON"), phrase.person, phrase.plural, kind=phrase.kind)
