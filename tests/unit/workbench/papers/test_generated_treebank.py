"""The treebank that the primer generates: trees, agreement, spelling, and what is known of each word."""

from collections import Counter
from pathlib import Path

import pytest
from bertscope_workbench.papers.items import Data
from bertscope_workbench.papers.items.treebank import (
    Treebank,
    entity_labels,
    feature,
    role_labels,
    treebank,
)
from bertscope_workbench.readers.conllu import Sentence
from bertscope_workbench.readers.treebanks import read_tree_conllu

from tests.support.generated_sentences import written

FORM, LEMMA, UPOS, HEAD, DEPREL = 1, 2, 3, 6, 7


@pytest.fixture(scope="module")
def bank() -> Treebank:
    return treebank(Data())


def children(sentence: Sentence, number: int, *relations: str) -> list[int]:
    return [one for one, row in sentence.rows.items() if int(row[HEAD]) == number and row[DEPREL] in relations]


@pytest.mark.slow
def test_sentences_are_trees_of_the_length_that_is_said_and_no_two_alike(bank: Treebank) -> None:
    assert len(bank.sentences) == len({sentence.text for sentence in bank.sentences}) == 1200
    for sentence in bank.sentences:
        assert 5 <= len(sentence.rows) <= 18
        assert [row[DEPREL] for row in sentence.rows.values()].count("root") == 1
        assert all((row[HEAD] == "0") == (row[DEPREL] == "root") for row in sentence.rows.values())
        for number in sentence.rows:
            steps = 0
            while number:
                number, steps = int(sentence.rows[number][HEAD]), steps + 1
                assert steps <= len(sentence.rows), sentence.text


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


def test_sentences_begin_with_a_capital_and_end_with_a_mark(bank: Treebank) -> None:
    for sentence in bank.sentences:
        assert sentence.text[0].isupper()
        assert sentence.text[-1] in ".?!"
        assert "  " not in sentence.text
        assert " ," not in sentence.text


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


def test_one_file_is_divided_and_three_are_taken_by_their_names(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    one = tmp_path / "one" / "all.conllu"
    one.write_text(written(30), encoding="utf-8")
    divided = treebank(Data(one.parent))
    assert (len(divided.train), len(divided.dev), len(divided.test)) == (18, 3, 9)
    assert "all.conllu" in divided.source
    assert not divided.generated
    for part, size in (("dev", 3), ("test", 4), ("train", 9)):
        (tmp_path / f"xx-{part}.conllu").write_text(written(size), encoding="utf-8")
    found = treebank(Data(tmp_path, 5))
    assert (len(found.train), len(found.dev), len(found.test)) == (5, 3, 4)
    assert len(read_tree_conllu(one)) == 30
