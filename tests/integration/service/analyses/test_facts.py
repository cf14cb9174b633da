"""Ranks of objects against transformers in float64, one sentence at a time, on three architectures and both runtimes."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from bertscope_service.analyses.decoded_facts import DecodedFactPlan
from bertscope_service.analyses.fact_choices import Skipped
from bertscope_service.analyses.fact_queries import Fact, FactQuery, Relation, Scoring, Template
from bertscope_service.analyses.facts import FactAnswer, FactPlan
from bertscope_service.analyses.texts import with_masks
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.edits import Edits
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.errors import InvalidArgument

from tests.support.decoding import Definition
from tests.support.reference import HeadEdits, Reference, Subject
from tests.support.rounding import BOTH_SIDES
from tests.support.runner import run_rows

NEAR = BOTH_SIDES
"""Entries whose log-probabilities differ by less may change places."""

WORDS = ("cat", "dog", "city", "the", "a", "garden", "unplayable", "recorded", "Zürich", "old", "house", "7:45")
"""Words of one piece and of several, under every tokenizer."""
SINGLES = ("the", "a", "in", "and", "e", "s")
"""Some of these are single entries under every tokenizer, after a blank or not."""

CAPITAL = Relation((Template("The capital of [X] is [Y]."), Template("People say that [Y] is the capital city of [X].")))
BORN = Relation((Template("[X] was born in ([Y]) ."), Template("[X] was not born in ([Y]) .", negated=True)))
FACTS = (
    Fact(0, "France", SINGLES[:1]),
    Fact(0, "the old house", SINGLES),
    Fact(1, "Dante", SINGLES[::-1], primes=("Rome", "the cat")),
    Fact(1, "Marie", SINGLES, primes=("Madrid",)),
    Fact(0, "France", SINGLES[1:3]),
    Fact(1, "Élodie and José", SINGLES),
)


class Answered(NamedTuple):
    plan: FactPlan
    answers: list[list[FactAnswer]]


def query(
    subject: Subject, facts: Sequence[Fact] = FACTS, relations: Sequence[Relation] = (CAPITAL, BORN), **how: object
) -> FactQuery:
    return FactQuery(tuple(relations), tuple(facts), subject.encoder.shape.vocabulary_size, **how)  # type: ignore[arg-type]


def ask(
    subject: Subject, asked: FactQuery, *, gates: Edits | None = None, encoder: Encoder | None = None, batch: int = 5
) -> Answered:
    plan = FactPlan(asked, subject.tokenizer)
    return Answered(plan, plan.answer(run_rows(encoder or subject.encoder, plan.rows, gates, batch=batch)))


class Expected:
    """The definitions, written down again: a sentence, its pieces by transformers' tokenizer, a run in float64."""

    def __init__(self, folder: Path, tokenizer: TextTokenizer, edits: HeadEdits | None = None) -> None:
        self.reference = Reference(folder, torch.float64)
        self.tokenizer, self.edits = tokenizer, edits
        self.mask = tokenizer.mask_token or ""
        self.known: dict[tuple[str, int, int], torch.Tensor] = {}

    def sentence(self, template: str, subject: str, prime: str | None) -> str:
        return (f"{prime}? " if prime else "") + template.replace("[Y]", "\0").replace("[X]", subject).replace("\0", "[MASK]")

    def logs(self, sentence: str, which: int, length: int = 1) -> torch.Tensor:
        """Logarithms of probabilities [length, vocabulary] at a mask, in place of which there are `length`."""
        key = sentence, which, length
        if key not in self.known:
            ids = list(self.tokenizer.encode(sentence).sequence.ids)
            segments = list(self.tokenizer.encode(sentence).sequence.segments)
            place = [place for place, token in enumerate(ids) if token == self.tokenizer.mask_id][which]
            ids[place : place + 1] = ids[place : place + 1] * length
            segments[place : place + 1] = segments[place : place + 1] * length
            row = TokenSequence(ids, segments)
            found = self.reference.run([row]) if self.edits is None else self.reference.run_edited(row, self.edits)
            self.known[key] = found.logits[0, place : place + length].double().log_softmax(-1)
        return self.known[key]

    def pieces(self, word: str, sentence: str) -> tuple[int, ...]:
        ahead = sentence[: sentence.index("[MASK]")]
        return self.tokenizer.pieces_in_context(word, " " if ahead[-1:].isspace() else ahead[-1:])

    def single(self, word: str, sentence: str) -> int | None:
        pieces = self.pieces(word, sentence)
        return pieces[0] if len(pieces) == 1 and pieces[0] != self.tokenizer.unknown_id else None


def check_rank(rank: int, log: float, scores: torch.Tensor, gold: float) -> None:
    """Checks a rank among scores: exact but for near-ties."""
    assert log == pytest.approx(gold, abs=NEAR)
    likelier, near = int((scores > gold + NEAR).sum()), int(((scores - gold).abs() <= NEAR).sum())
    assert 1 + likelier <= rank <= likelier + near


def check(subject: Subject, asked: Answered, expected: Expected, words: Sequence[str] = ()) -> int:
    """Checks all answers of a query with one mask for an object, ranked among words (none: the whole vocabulary)."""
    checked = 0
    for fact, answers in zip(asked.plan.query.facts, asked.answers, strict=True):
        relation = asked.plan.query.relations[fact.relation]
        among_words = relation.candidates or words
        primes: list[str | None] = [None, *fact.primes]
        assert [(each.template, each.prime) for each in answers] == [
            (template, None if prime is None else prime)
            for prime in [None, *range(len(fact.primes))]
            for template in range(len(relation.templates))
        ]
        for each in answers:
            template = relation.templates[each.template].text
            sentence = expected.sentence(template, fact.subject, primes[0 if each.prime is None else each.prime + 1])
            scores = expected.logs(sentence, 0)[0]
            ids = {expected.single(word, sentence) for word in among_words} - {None}
            among = scores[sorted(token for token in ids if token is not None)] if among_words else scores
            golds = {place: expected.single(word, sentence) for place, word in enumerate(fact.objects)}
            right = {
                place: float(scores[token]) for place, token in golds.items() if token is not None and (not ids or token in ids)
            }
            check_rank(each.rank, each.log, among, max(right.values()))
            assert right[each.object] == pytest.approx(max(right.values()), abs=NEAR)
            assert [log for _, log in each.top] == pytest.approx(among.topk(len(each.top)).values.tolist(), abs=NEAR)
            if among_words:
                assert {word for word, _ in each.top} <= set(among_words)
            if asked.plan.query.prior and each.prime is None:
                assert each.prior is not None
                unknown = template.replace("[X]", "[MASK]").replace("[Y]", "[MASK]")
                before = expected.logs(unknown, int(template.index("[X]") < template.index("[Y]")))[0]
                chosen = before[sorted(token for token in ids if token is not None)] if among_words else before
                check_rank(*each.prior, chosen, float(before[golds[each.object] or 0]))
            else:
                assert each.prior is None
            checked += 1
    return checked


@pytest.fixture(scope="module")
def expected(subject: Subject) -> Expected:
    return Expected(subject.folder, subject.tokenizer)


def test_ranks_are_those_of_transformers_in_float64(subject: Subject, expected: Expected) -> None:
    """With primes, negation and the prior, in padded batches: among the whole vocabulary, among words, and among candidates."""
    asked = ask(subject, query(subject, prior=True, top_k=3))
    assert not asked.plan.skipped
    assert check(subject, asked, expected) == 3 * 2 + 6 + 4 + 2
    assert asked.plan.ranked_among == [subject.encoder.shape.vocabulary_size] * 2
    words = [*SINGLES, *WORDS, "the"]
    relations = (CAPITAL, Relation(BORN.templates, candidates=(*SINGLES, "unplayable", "of")))
    asked = ask(subject, query(subject, relations=relations, vocabulary=tuple(words), prior=True, top_k=2))
    assert check(subject, asked, expected, words) > 0
    assert all(0 < size <= len(words) for size in asked.plan.ranked_among)


@pytest.mark.slow
@pytest.mark.parametrize("scoring", [Scoring.LEFT_TO_RIGHT, Scoring.CONFIDENCE_FIRST])
def test_decoding_is_its_definition(subject: Subject, scoring: Scoring, encoder: Encoder) -> None:
    """Every step against transformers in float64; on both runtimes, in batches and alone."""
    definition, most = Definition(subject.folder), 2
    asked = query(subject, [Fact(0, "France", ("a", "the"), ("Rome",))], scoring=scoring)
    asked = replace(asked, max_pieces=most, top_k=most)
    for batch in (9, 5):
        plan = DecodedFactPlan(asked, subject.tokenizer)
        while plan.rows:
            plan.advance(run_rows(encoder, plan.rows, batch=batch))
        for fact, answers in zip(asked.facts, plan.answer(()), strict=True):
            assert len(answers) == 2 * (1 + len(fact.primes))
            for each in answers:
                template = asked.relations[fact.relation].templates[each.template]
                text, before = template.write(fact.subject, None if each.prime is None else fact.primes[each.prime])
                sequence = subject.tokenizer.encode(text).sequence
                (place,) = [place for place, token in enumerate(sequence.ids) if token == subject.tokenizer.mask_id]
                scores = [
                    definition.greedy(
                        with_masks(sequence, place, length),
                        range(place, place + length),
                        1,
                        confident=scoring is Scoring.CONFIDENCE_FIRST,
                    )[0]
                    / length
                    for length in range(1, most + 1)
                ]
                assert [log for _, log in each.top] == pytest.approx(sorted(scores, reverse=True), abs=NEAR)
                single = definition.logs(sequence, ())[place]
                given = {subject.tokenizer.pieces_in_context(word, before) for word in fact.objects}
                likeliest = (int(single.argmax()),)
                assert (each.rank is not None) >= (likeliest in given)
                if each.rank is not None:
                    assert each.log == pytest.approx(sorted(scores, reverse=True)[each.rank - 1], abs=NEAR)
    assert plan.ranked_among == [most, 0]


@pytest.mark.parametrize("subject", ["bert"], indirect=True)
def test_the_work_of_decoding_is_that_of_all_rounds(subject: Subject) -> None:
    asked = replace(query(subject, [Fact(0, "France", SINGLES)], scoring=Scoring.LEFT_TO_RIGHT), max_pieces=3)
    plan = DecodedFactPlan(asked, subject.tokenizer)
    tokens = 0
    while plan.rows:
        tokens += sum(len(sequence) for sequence, _ in plan.rows)
        plan.advance(run_rows(subject.encoder, plan.rows))
    DecodedFactPlan(replace(asked, max_row_tokens=tokens), subject.tokenizer)
    with pytest.raises(InvalidArgument) as caught:
        DecodedFactPlan(replace(asked, max_row_tokens=tokens - 1), subject.tokenizer)
    assert caught.value.reason == "TOO_MANY_TOKENS"
    with pytest.raises(InvalidArgument, match="more than 20 tokens"):
        FactPlan(query(subject, max_row_tokens=20), subject.tokenizer)


@pytest.mark.slow
def test_candidates_are_scored_with_as_many_masks_as_pieces(subject: Subject, expected: Expected) -> None:
    """The mean of the logarithms of their pieces' probabilities, each with all of the masks in place."""
    relations = [
        Relation(relation.templates, candidates=tuple(dict.fromkeys((*WORDS, *SINGLES)))) for relation in (CAPITAL, BORN)
    ]
    facts = [
        Fact(index % 2, subject_, (WORDS[index], WORDS[-1]), fact.primes)
        for index, (subject_, fact) in enumerate((fact.subject, fact) for fact in FACTS)
    ]
    asked = ask(subject, query(subject, facts, relations, scoring=Scoring.CANDIDATES, top_k=4))
    lengths = set()
    for fact, answers in zip(facts, asked.answers, strict=True):
        primes: list[str | None] = [None, *fact.primes]
        assert len(answers) == 2 * len(primes)
        for each in answers:
            template = relations[fact.relation].templates[each.template].text
            sentence = expected.sentence(template, fact.subject, primes[0 if each.prime is None else each.prime + 1])
            scores = {}
            for word in relations[fact.relation].candidates:
                pieces = expected.pieces(word, sentence)
                logs = expected.logs(sentence, 0, len(pieces))
                scores[word] = float(torch.stack([logs[k, piece] for k, piece in enumerate(pieces)]).mean())
                lengths.add(len(pieces))
            best = max(fact.objects, key=scores.__getitem__)
            check_rank(each.rank, each.log, torch.tensor(list(scores.values()), dtype=torch.float64), scores[best])
            assert scores[fact.objects[each.object]] == pytest.approx(scores[best], abs=NEAR)
            assert [log for _, log in each.top] == pytest.approx(sorted(scores.values(), reverse=True)[:4], abs=NEAR)
            assert all(log == pytest.approx(scores[word], abs=NEAR) for word, log in each.top)
    assert len(lengths) > 2


@pytest.mark.parametrize("subject", ["bert"], indirect=True)
def test_each_distinct_sentence_runs_once(subject: Subject) -> None:
    """France is asked twice, with other objects; the prior is one sentence for a template, whatever the number of facts."""
    facts = [
        Fact(0, "France", SINGLES[:1]),
        Fact(0, "France", SINGLES[1:]),
        *(Fact(0, name, SINGLES) for name in ("Rome", "Spain")),
    ]
    assert len(FactPlan(query(subject, facts), subject.tokenizer).rows) == 2 * 3
    assert len(FactPlan(query(subject, facts, prior=True), subject.tokenizer).rows) == 2 * 3 + 2


@pytest.mark.two_architectures
def test_pieces_depend_on_the_character_before(subject: Subject, expected: Expected) -> None:
    """After "(" and at the start of a text, a byte-level vocabulary has other entries than after a blank."""
    relations = [Relation((Template("[Y] [X]"), Template("[X] ([Y])"), Template("[X] [Y]")))]
    asked = ask(subject, query(subject, [Fact(0, "the house", ("e", "a", "s"), primes=("cat",))], relations, top_k=2))
    assert check(subject, asked, expected) == 6


@pytest.mark.parametrize("subject", ["bert"], indirect=True)
def test_an_object_that_is_no_candidate_is_skipped_and_a_long_candidate_needs_room(subject: Subject) -> None:
    words = 1
    while len(subject.tokenizer.encode("The capital of" + " the" * (words + 1) + " is [MASK].")) <= 64:
        words += 1
    full = " ".join(["the"] * words)
    relations = [Relation(CAPITAL.templates[:1], candidates=("a", "unplayable"))]
    facts = [Fact(0, "France", ("a",)), Fact(0, "France", ("in",)), Fact(0, full, ("a",))]
    plan = FactPlan(query(subject, facts, relations, scoring=Scoring.CANDIDATES), subject.tokenizer)
    assert plan.skipped == {1: Skipped.NOT_AMONG_CANDIDATES, 2: Skipped.TOO_LONG}
    facts = [Fact(0, full, SINGLES), Fact(0, "France", ("ქართული",))]
    plan = FactPlan(query(subject, facts, [Relation(CAPITAL.templates[:1])]), subject.tokenizer)
    assert (len(plan.rows), plan.skipped) == (1, {1: Skipped.NOT_WRITABLE})


@pytest.mark.parametrize("subject", ["bert"], indirect=True)
def test_a_mask_that_only_the_filled_template_has_is_refused(subject: Subject) -> None:
    with pytest.raises(InvalidArgument, match="mask"):
        FactPlan(query(subject, [Fact(0, "]", SINGLES)], [Relation((Template("[MASK[X] is [Y]."),))]), subject.tokenizer)


def test_spelling_of_many_words_is_that_of_each(subject: Subject, checkpoint: Callable[[str], Path]) -> None:
    words = [*WORDS, *SINGLES, "", " ", "(", "ქართული"]
    for before in ("", " ", "(", "x", "é"):
        together = subject.tokenizer.all_pieces_in_context(words, before)
        assert together == [subject.tokenizer.pieces_in_context(word, before) for word in words]
        found = subject.tokenizer.single_entries.find(words, before)
        assert found is subject.tokenizer.single_entries.find(tuple(words), before)
        single = [len(pieces) == 1 and pieces[0] != subject.tokenizer.unknown_id for pieces in together]
        assert [entry >= 0 for entry in found.tolist()] == single
