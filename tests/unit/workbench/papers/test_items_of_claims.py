"""Items of claims: balanced, of one mask each, told apart as their claims say; labelled texts, and texts with numbers."""

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import bertscope
import pytest
from bertscope_workbench.papers.asking import Asking
from bertscope_workbench.papers.items import knowledge, numbers
from bertscope_workbench.papers.items.contrasts import MASK, SETS, Contrast, of_choices, shipped_contrasts
from bertscope_workbench.papers.items.generated import sentences
from bertscope_workbench.papers.items.perturbations import Clause, Kind, clause, perturb, pools
from bertscope_workbench.papers.measures import choices, facts
from bertscope_workbench.papers.measures.layers import masked_word
from bertscope_workbench.papers.measures.readable import capital_pairs
from bertscope_workbench.papers.published.item_kinds import Choice
from bertscope_workbench.readers.conllu import read_sentences
from bertscope_workbench.readers.item_lists import PartialItems

from tests.support.treebank_sentence import SENTENCE

CAT = Clause(
    ("my", "old", "cat", "eats", "a", "small", "fish", "today"),
    (("PRON", ""), ("ADJ", ""), ("NOUN", ""), ("VERB", ""), ("DET", ""), ("ADJ", ""), ("NOUN", ""), ("ADV", "")),
    3,
    frozenset({0, 1, 2}),
    frozenset({4, 5, 6}),
)
WORDS = {("ADJ", ""): ["old", "big"], ("NOUN", ""): ["cat", "fish", "dog"], ("ADV", ""): ["today", "soon"]}


@pytest.mark.parametrize("name", SETS)
def test_items_can_be_asked(name: str) -> None:
    items = shipped_contrasts(name)
    assert len({item.group for item in items}) >= 20
    for item in items:
        assert len(item.right) == len(item.wrong)
        assert {*item.right}.isdisjoint(item.wrong)
        for text, word in (*item.right, *item.wrong):
            assert text.count(MASK) == 1
            assert word


@pytest.mark.parametrize("name", ["attractors", "nonsense"])
def test_agreement_is_balanced_and_misleads(name: str) -> None:
    items = shipped_contrasts(name)
    forms = Counter(item.right[0][1] for item in items)
    assert all(forms[one] == forms[several] for one, several in (("is", "are"), ("was", "were"), ("has", "have")))
    nouns = {item.group for item in items}
    for item in items:
        text, right = item.right[0]
        several = [word not in nouns for word in text.split(MASK)[0].split() if {word, word[:-1], word[:-2]} & nouns]
        assert several[0] != several[-1]  # the nearest noun has the other number
        assert several[0] == (right in ("are", "were", "have"))


def test_scope_moves_the_same_words() -> None:
    for item in shipped_contrasts("in-scope"):
        (right, word), (wrong, other) = item.right[0], item.wrong[0]
        assert word == other
        assert sorted(right.lower().split()) == sorted(wrong.lower().split())
    assert [item.group for item in shipped_contrasts("licensed")] == [item.group for item in shipped_contrasts("in-scope")]


def test_negated_items_turn_the_affirmed_ones_round() -> None:
    for affirmed, negated in zip(shipped_contrasts("affirmed"), shipped_contrasts("negated"), strict=True):
        assert affirmed.group == negated.group
        assert {(text.replace(" is not a ", " is a "), word) for text, word in negated.wrong} == {*affirmed.right}


def test_sizes_and_comparisons_are_about_the_same_things() -> None:
    comparisons = shipped_contrasts("comparisons")
    assert [item.group for item in shipped_contrasts("sizes")] == [item.group for item in comparisons]
    item = next(item for item in comparisons if item.group == "elephant, mouse")
    assert item.right == (
        ("An elephant is [MASK] than a mouse.", "bigger"),
        ("A mouse is [MASK] than an elephant.", "smaller"),
    )


def test_names_are_as_many_of_each_country_and_compared_with_those_of_another() -> None:
    people = {text.split(" is a ")[0]: country for country, _, text in knowledge.citizens()}
    assert len({*Counter(people.values()).values()}) == 1
    for item in shipped_contrasts("names-against-facts"):
        (text, _), (other, _) = item.right[0], item.wrong[0]
        assert people[text.split(" was born")[0]] == item.group != people[other.split(" was born")[0]]


def test_continents_and_languages_are_of_countries_that_have_a_capital() -> None:
    relations = facts._relations()
    known = {*relations["country"].objects.values()}
    for name in ("continent", "language"):
        assert {*relations[name].objects} - known <= {"Taiwan", "South Korea", "North Korea"}
        assert len(relations[f"capital's {name}"].objects) >= 60


def test_published_choices_of_a_group() -> None:
    one, other = (Choice((("a [MASK]", word), ("a [MASK]", "x"), ("a [MASK]", "y")), (word,)) for word in ("b", "c"))
    (found,) = of_choices([one, other], "c")
    assert (found.right, found.wrong) == ((("a [MASK]", "c"),), (("a [MASK]", "x"),))


def test_outcomes_are_right_wrong_tied_or_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {("t", "a"): -1.0, ("t", "b"): -2.0, ("t", "c"): -2.0}
    monkeypatch.setattr(choices, "log_probabilities", lambda *_, **__: known)
    pairs = [("a", "b"), ("b", "a"), ("b", "c"), ("a", "z")]
    items = [Contrast((("t", right),), (("t", wrong),), "g") for right, wrong in pairs]
    found = choices.outcomes(cast(Asking, SimpleNamespace()), items)
    assert found[:3] == [1.0, 0.0, 0.5]
    assert found[3] != found[3]


@pytest.mark.parametrize(
    ("kind", "left"),
    [
        ("drop-subject", "[MASK] a small fish today ."),
        ("drop-object", "my old cat [MASK] today ."),
        ("truncate", "old cat [MASK] a ."),
    ],
)
def test_what_is_left_out(kind: Kind, left: str) -> None:
    found = perturb(CAT, kind, WORDS)
    assert found is not None
    assert found.whole == "my old cat [MASK] a small fish today ."
    assert found.perturbed == left


def test_clauses_of_the_generated_treebank() -> None:
    found = [each for each in map(clause, sentences()[:60]) if each is not None]
    assert 10 < len(found) < 60
    for each in found:
        assert each.kinds[each.verb][0] == "VERB"
        assert each.subject
        assert each.object
        assert each.verb not in each.subject | each.object
        assert not each.subject & each.object
    assert all(kind[0] != "DET" for kind in pools(found))


def test_the_constant_answer_is_the_commonest_of_its_relation() -> None:
    found: Any = facts._constant(["a", "b", "b", "a", "a"], ["x", "x", "x", "y", "y"])
    assert found.tolist() == [0, 1, 1, 1, 1]


def test_the_middle_content_word_is_masked(tmp_path: Path) -> None:
    (tmp_path / "words.conllu").write_text(SENTENCE.format("", "", ""), encoding="utf-8")
    (sentence,) = read_sentences(tmp_path / "words.conllu", None, lambda sentence: sentence, PartialItems())
    assert masked_word(sentence) == ("The cat [MASK] there.", "sat")
    for row in sentence.rows.values():
        row[3] = "DET"
    assert masked_word(sentence) is None


def written(texts: tuple[bertscope.ValuedText, ...]) -> set[int]:
    return {int(word) for text in texts for word in str(text.text).split() if word.isdigit()}


def test_parts_share_no_number() -> None:
    for found in (numbers.values(range(100)), numbers.sums(range(10, 200))):
        parts = [written(part) for part in (found.train, found.dev, found.test)]
        assert sum(map(len, parts)) == len(set.union(*parts))
        assert len(found.groups) == len(found.test)
    assert len(parts[2]) == 2 * len(numbers.sums(range(10, 200)).test)


def test_values_are_what_is_written() -> None:
    for text in numbers.values(range(100)).test:
        ((value, start, end, *_),) = text.values
        assert str(text.text)[start:end] == str(int(value))
    for text in numbers.sums(range(10, 200)).train:
        first, _, second = str(text.text).split()
        ((value, start, end, *_),) = text.values
        assert (value, start, end) == (int(first) + int(second), 0, len(str(text.text)))


def test_beyond_is_trained_on_the_same_texts() -> None:
    inside, beyond = numbers.values(range(100)), numbers.beyond(range(100), range(100, 200))
    assert (inside.train, inside.dev) == (beyond.train, beyond.dev)
    assert min(written(beyond.test)) == 100
    assert Counter(beyond.groups)[103.0] == len(numbers.TEMPLATES)


def test_pairs_are_balanced_and_no_country_is_in_two_parts() -> None:
    parts = capital_pairs()
    named = []
    for part in parts:
        assert Counter(label for text in part for label, *_ in text.labels) == {"its": len(part) // 2, "no": len(part) // 2}
        countries = Counter()
        for text in part:
            ((label, _, _, _, (start, end, _)),) = text.labels
            countries[str(text.text)[start:end], label] += 1
        assert set(countries.values()) == {1}  # a country is once with its capital and once with another: it tells nothing
        named.append({country for country, _ in countries})
    assert sum(map(len, named)) == len(set.union(*named))
    texts = {str(text.text) for part in parts for text in part}
    assert "Kabul and Afghanistan were in the news." in texts
    assert not any("Guatemala City" in text for text in texts)
