"""The treebank that the primer generates: trees, agreement, spelling, and what is known of each word."""

from collections import Counter
from pathlib import Path

import pytest
from bertscope_workbench.primer.data import Data
from bertscope_workbench.primer.data.grammar import LEAST_WORDS, MOST_WORDS, generate
from bertscope_workbench.primer.data.treebank import (
    GENERATED,
    Treebank,
    entity_labels,
    feature,
    role_labels,
    treebank,
)
from bertscope_workbench.primer.data.words import Verb, article, lexicon
from bertscope_workbench.readers.conllu import Sentence
from bertscope_workbench.readers.treebanks import read_tree_conllu

FORM, LEMMA, UPOS, HEAD, DEPREL = 1, 2, 3, 6, 7


@pytest.fixture(scope="module")
def bank() -> Treebank:
    return treebank(Data())


def children(sentence: Sentence, number: int, *relations: str) -> list[int]:
    return [one for one, row in sentence.rows.items() if int(row[HEAD]) == number and row[DEPREL] in relations]


@pytest.mark.slow
def test_sentences_are_trees_of_the_length_that_is_said_and_no_two_alike(bank: Treebank) -> None:
    assert len(bank.sentences) == len({sentence.text for sentence in bank.sentences}) == GENERATED
    for sentence in bank.sentences:
        assert LEAST_WORDS <= len(sentence.rows) <= MOST_WORDS
        assert [row[DEPREL] for row in sentence.rows.values()].count("root") == 1
        assert all((row[HEAD] == "0") == (row[DEPREL] == "root") for row in sentence.rows.values())
        for number in sentence.rows:
            steps = 0
            while number:
                number, steps = int(sentence.rows[number][HEAD]), steps + 1
                assert steps <= len(sentence.rows), sentence.text


def test_the_same_seed_gives_the_same_sentences_and_another_one_others() -> None:
    assert list(generate(20, seed=1)) == list(generate(20, seed=1))
    assert list(generate(20, seed=1)) != list(generate(20, seed=2))


def test_present_verbs_agree_with_their_subjects(bank: Treebank) -> None:
    checked = 0
    for sentence in bank.sentences:
        for number in sentence.rows:
            for subject in children(sentence, number, "nsubj", "nsubj:pass"):
                words = [number, *children(sentence, number, "aux", "aux:pass", "cop")]
                finite = [sentence.rows[one] for one in words if feature(sentence.rows[one], "Tense") in ("Pres", "Past")]
                finite = [one for one in finite if feature(one, "VerbForm") == "Fin"]
                form = sentence.rows[subject][FORM].lower()
                joined = bool(children(sentence, subject, "conj"))
                if not finite or form in ("i", "you") or feature(sentence.rows[subject], "PronType") in ("Rel", "Int"):
                    continue
                plural = joined or feature(sentence.rows[subject], "Number") == "Plur"
                verb = finite[0][FORM].lower()
                if feature(finite[0], "Tense") == "Pres":
                    assert (verb == "are" if finite[0][LEMMA] == "be" else verb == finite[0][LEMMA]) == plural, sentence.text
                    checked += 1
                elif verb in ("was", "were"):
                    assert (verb == "were") == plural, sentence.text
    assert checked > 200


def test_words_are_spelled_as_people_write() -> None:
    eat, plan, carry, visit, dry, lie = (
        Verb("eat", "ate", "eaten"), *(next(one for verbs in lexicon().verbs.values() for one in verbs if one.lemma == lemma)
                                       for lemma in ("plan", "carry", "visit", "dry", "lie")),
    )  # fmt: skip
    assert (plan.past, plan.gerund, visit.past, visit.gerund) == ("planned", "planning", "visited", "visiting")
    assert (carry.past, carry.gerund, carry.finite("Pres")) == ("carried", "carrying", "carries")
    assert (dry.finite("Pres"), dry.participle, lie.gerund, eat.gerund) == ("dries", "dried", "lying", "eating")
    assert (eat.finite("Past", 3), eat.finite("Pres", 3, True), eat.finite("Pres", 1)) == ("ate", "eat", "eat")
    assert [noun.plural for noun in lexicon().nouns["person"] if noun.lemma in ("child", "thief", "boss")] == [
        "children", "thieves", "bosses",
    ]  # fmt: skip
    articles = {"uniform": "a", "apple": "an", "honest": "an", "European": "a", "old": "an", "house": "a"}
    assert {word: article(word) for word in articles} == articles


def test_sentences_begin_with_a_capital_and_end_with_a_mark(bank: Treebank) -> None:
    for sentence in bank.sentences:
        assert sentence.text[0].isupper()
        assert sentence.text[-1] in ".?!"
        assert "  " not in sentence.text
        assert " ," not in sentence.text
        for row, following in zip(list(sentence.rows.values()), list(sentence.rows.values())[1:], strict=False):
            if row[LEMMA] == "a" and row[UPOS] == "DET":
                assert row[FORM].lower() == article(following[FORM])


def test_roles_and_entities_have_their_places(bank: Treebank) -> None:
    roles, entities = Counter[str](), Counter[str]()
    for sentence in bank.sentences:
        for label, _, _, _, other in role_labels(sentence).labels:
            assert other is not None
            roles[label] += 1
        for label, start, end, _, _ in entity_labels(sentence, others=False).labels:
            entities[label] += 1
            assert sentence.text[start:end].strip()
            if label in ("PERSON", "PLACE", "ORG"):
                assert sentence.text[start].isupper()
    assert set(entities) == {"PERSON", "PLACE", "ORG", "TIME", "NUMBER"}
    assert set(roles) == {
        "Agent", "Patient", "Theme", "Experiencer", "Stimulus", "Recipient", "Location", "Goal", "Time", "Topic",
    }  # fmt: skip
    assert all(count >= 20 for count in (*roles.values(), *entities.values()))


def write(path: Path, sentences: list[list[str]]) -> Path:
    path.write_text("\n\n".join("\n".join(lines) for lines in sentences) + "\n\n", encoding="utf-8")
    return path


def test_one_file_is_divided_and_three_are_taken_by_their_names(tmp_path: Path) -> None:
    sentences = list(generate(30, seed=3))
    (tmp_path / "one").mkdir()
    one = write(tmp_path / "one" / "all.conllu", sentences)
    divided = treebank(Data(one.parent))
    assert (len(divided.train), len(divided.dev), len(divided.test)) == (18, 3, 9)
    assert "all.conllu" in divided.source
    assert not divided.generated
    for part, size in (("dev", 3), ("test", 4), ("train", 9)):
        write(tmp_path / f"xx-{part}.conllu", sentences[:size])
    found = treebank(Data(tmp_path, 5))
    assert (len(found.train), len(found.dev), len(found.test)) == (5, 3, 4)
    assert len(read_tree_conllu(one)) == len(sentences)
