"""Texts with numbers share none between their parts; pairs of capitals and countries are balanced and not spelled alike."""

from collections import Counter

import bertscope
from bertscope_workbench.papers.items import numbers
from bertscope_workbench.papers.measures.readable import capital_pairs


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
