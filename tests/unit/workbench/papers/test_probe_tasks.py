"""Labels that probes are asked for: chunks, ancestors, tasks about sentences, senses and auxiliaries."""

import re
from collections import Counter, defaultdict

import pytest
from bertscope import ProbeText
from bertscope_workbench.papers.estimates import NotAsked
from bertscope_workbench.papers.items import Data
from bertscope_workbench.papers.items.generated import ambiguous_names, auxiliary_texts
from bertscope_workbench.papers.items.senses import sense_uses
from bertscope_workbench.papers.items.sentence_tasks import KINDS, SENTENCE_TASKS, sentence_task
from bertscope_workbench.papers.items.treebank import Treebank, treebank
from bertscope_workbench.papers.items.word_tasks import ancestor_labels, chunk_labels
from bertscope_workbench.papers.measures.probing import thirds_of
from bertscope_workbench.readers.conllu import Sentence, parse_sentence


def sentence(*rows: tuple[str, str, int, str, str]) -> Sentence:
    """Returns a sentence of (form, part of speech, head, relation, features)."""
    lines = [
        "\t".join([str(number), form, form.lower(), upos, "_", feats or "_", str(head), deprel, "_", "_"])
        for number, (form, upos, head, deprel, feats) in enumerate(rows, start=1)
    ]
    found = parse_sentence([(number, line.encode()) for number, line in enumerate(lines, start=1)])
    assert found is not None
    return found


PRESENT, PLURAL = "Tense=Pres|VerbForm=Fin", "Number=Plur"
COOKS = sentence(
    ("Two", "NUM", 4, "nummod", ""), ("very", "ADV", 3, "advmod", ""), ("old", "ADJ", 4, "amod", ""),
    ("cooks", "NOUN", 6, "nsubj", PLURAL), ("are", "AUX", 6, "aux", PRESENT), ("giving", "VERB", 0, "root", "VerbForm=Part"),
    ("the", "DET", 8, "det", ""), ("dog", "NOUN", 6, "iobj", "Number=Sing"), ("the", "DET", 10, "det", ""),
    ("bones", "NOUN", 6, "obj", PLURAL), ("that", "PRON", 13, "obj", ""), ("Anna", "PROPN", 13, "nsubj", "Number=Sing"),
    ("bought", "VERB", 10, "acl:relcl", "Tense=Past|VerbForm=Fin"), (".", "PUNCT", 6, "punct", ""),
)  # fmt: skip


@pytest.fixture(scope="module")
def bank() -> Treebank:
    return treebank(Data())


def names(text: ProbeText) -> list[str]:
    return [label[0] for label in text.labels]


def test_chunks_are_heads_with_their_determiners_and_auxiliaries() -> None:
    assert names(chunk_labels(COOKS)) == [
        "B-NP", "I-NP", "I-NP", "I-NP", "B-VP", "I-VP", "B-NP", "I-NP", "B-NP", "I-NP", "B-NP", "B-NP", "B-VP", "O",
    ]  # fmt: skip


def test_ancestors_are_relations_up_the_tree() -> None:
    assert names(ancestor_labels(0)(COOKS))[:6] == ["nummod", "advmod", "amod", "nsubj", "aux", "root"]
    assert names(ancestor_labels(1)(COOKS))[:6] == ["nsubj", "amod", "nsubj", "root", "root", "above"]
    assert names(ancestor_labels(2)(COOKS))[-3:] == ["obj", "obj", "root"]


def label_of(task: str, bank: Treebank, given: Sentence = COOKS) -> str | None:
    text = SENTENCE_TASKS[task](bank)(given)
    return None if text is None else text.labels[0][0]


def test_sentences_have_the_labels_that_one_can_count(bank: Treebank) -> None:
    assert label_of("length", bank) == "more"
    assert label_of("depth", bank) == "3"
    assert label_of("tense", bank) == "Pres"
    assert label_of("subject number", bank) == "Plur"
    assert label_of("object number", bank) == "Plur"
    assert label_of("top", bank) == "another"


def test_every_task_but_one_is_asked_of_generated_sentences(bank: Treebank) -> None:
    assert {task for tasks in KINDS.values() for task in tasks} == set(SENTENCE_TASKS)
    for task in SENTENCE_TASKS:
        parts = sentence_task(bank, task)
        if task == "inverted clauses":  # clauses that were put together at random have no order
            assert parts is None
            continue
        assert parts is not None
        for part in parts:
            assert all(label[1:3] == (0, len(text.text)) for text in part for label in text.labels)
        assert max(Counter(name for text in parts[0] for name in names(text)).values()) < 0.8 * len(parts[0])


@pytest.mark.parametrize("task", ["order", "odd word"])
def test_half_of_the_sentences_are_changed_by_little(bank: Treebank, task: str) -> None:
    parts = sentence_task(bank, task)
    assert parts is not None
    known = {sentence.text for sentence in bank.train}
    shares: Counter[str] = Counter()
    for text in parts[0]:
        (name,) = names(text)
        shares[name] += 1
        assert (text.text in known) == (name == "original")
    assert 0.4 < shares["changed"] / shares.total() < 0.6
    changed = next(str(text.text) for text in parts[0] if names(text) == ["changed"])
    words = sorted(re.findall(r"\w+", changed))
    alike = [text for text in known if sorted(re.findall(r"\w+", text)) == words]
    assert bool(alike) == (task == "order")


def test_clauses_change_places() -> None:
    clauses = [
        sentence(
            (name, "PROPN", 2, "nsubj", ""), ("sang", "VERB", 0, "root", ""), (",", "PUNCT", 6, "punct", ""),
            ("and", "CCONJ", 6, "cc", ""), ("we", "PRON", 6, "nsubj", ""), ("left", "VERB", 2, "conj", ""),
            (".", "PUNCT", 2, "punct", ""),
        )
        for name in ("Anna", "Peter", "Maria", "John", "David", "Sarah")
    ]  # fmt: skip
    found = [SENTENCE_TASKS["inverted clauses"](treebank(Data()))(one) for one in clauses]
    texts = {names(text)[0]: str(text.text) for text in found if text is not None}
    assert set(texts) == {"original", "changed"}
    assert texts["changed"].startswith("we left , and ")
    assert label_of("inverted clauses", treebank(Data())) is None


def test_senses_have_five_sentences_each() -> None:
    counts = Counter((use.word, use.sense) for use in sense_uses())
    assert len(counts) == 48
    assert set(counts.values()) == {5}
    assert all(use.text[use.start : use.end] == use.word for use in sense_uses())
    assert len({use.text for use in sense_uses()}) == 240


def test_the_first_auxiliary_is_the_main_one_only_where_it_is_said() -> None:
    for part, count in (("train", 240), ("dev", 60), ("test", 120)):
        texts = auxiliary_texts(part)
        assert len({text.text for text in texts}) == count
        for text in texts:
            (first, *_), (second, *_) = sorted(text.labels, key=lambda label: label[1])
            assert (first == "main") == (part != "test")
            assert first != second
            assert str(text.text)[0].isupper()


def test_ambiguous_names_have_several_types() -> None:
    types = defaultdict[str, set[str]](set)
    for text in ambiguous_names():
        for label in text.labels:
            types[str(text.text)[label[1] : label[2]]].add(label[0])
    assert types
    assert all(len(each) > 1 for each in types.values())


def test_thirds_are_of_all_states() -> None:
    assert thirds_of(7) == [[0, 1, 2], [3, 4], [5, 6]]
    with pytest.raises(NotAsked, match="thirds need three"):
        thirds_of(2)
