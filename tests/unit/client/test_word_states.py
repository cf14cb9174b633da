"""Nearest neighbours and explainable variance against brute force over all words of all texts."""

import bertscope
import bertscope_workbench as workbench
import numpy as np
import pytest
from bertscope.questions.representations.states import HiddenStates
from bertscope_workbench.analyses import variances
from bertscope_workbench.analyses.neighbours import Found, Query
from bertscope_workbench.analyses.variances import Samples

LAYERS, SIZE = (0, 3), 6
RANDOM = np.random.default_rng(11)
TEXTS = [["The", "bank", "rose"], ["A", "BANK", "of", "the", "bank"], ["money"]]
SOURCE = bertscope.Provenance(**dict.fromkeys(bertscope.Provenance.__dataclass_fields__, ""))  # type: ignore[arg-type]


def token(text: str, place: int, *, special: bool = False) -> bertscope.Token:
    return bertscope.Token(text, None, 4 * place, 4 * place + 3, special, None if special else place, 0, ())


def states(index: int, words: list[str]) -> HiddenStates:
    """A text's states; the first row is of a special token, and larger than all others."""
    tokens = (token("[CLS]", 0, special=True), *(token(word, place) for place, word in enumerate(words)))
    values = RANDOM.normal(0.3, 1, (len(LAYERS), len(tokens), SIZE)).astype(np.float32)
    values[:, 0] *= 100
    return HiddenStates(index, " ".join(words), None, tokens, values, LAYERS, 0, SOURCE, "word", "mean")


STREAM = [states(index, words) for index, words in enumerate(TEXTS)]
EVERY = [(one.input_index, word, one.states[:, row]) for one in STREAM for row, word in enumerate(one.tokens) if row]


def searched(query: Query) -> workbench.Neighbourhoods:
    found = Found(query)
    assert [found.add(one.input_index, one) for one in STREAM][-1] in (True, False)
    search = found.search()
    for one in STREAM:
        search.add(one)
    return search.result()


@pytest.mark.parametrize("other_words", [False, True])
@pytest.mark.parametrize("k", [2, 50])
def test_neighbours_are_those_of_all_pairs(k: int, other_words: bool) -> None:
    result = searched(Query.checked("bank", k, 9, other_words=other_words))
    assert (result.texts, result.searched) == (3, 9)
    occurrences = [(one.occurrence.input_index, one.occurrence.token.text) for one in result.found]
    assert occurrences == [(0, "bank"), (1, "BANK"), (1, "bank")]
    for one in result.found:
        where = one.occurrence.input_index, one.occurrence.token.start
        (own,) = [vectors for index, word, vectors in EVERY if (index, word.start) == where]
        for place, layer in enumerate(LAYERS):
            expected = sorted(
                (
                    (float(own[place] @ v[place] / np.linalg.norm(own[place]) / np.linalg.norm(v[place])), index, word.text)
                    for index, word, v in EVERY
                    if (index, word.start) != where and not (other_words and word.text.casefold() == "bank")
                ),
                reverse=True,
            )[:k]
            near = [(n.occurrence.input_index, n.occurrence.token.text) for n in one.neighbours[layer]]
            assert near == [(index, text) for _, index, text in expected]
            np.testing.assert_allclose([n.cosine for n in one.neighbours[layer]], [e[0] for e in expected], atol=1e-5)
    assert len(result.to_pandas()) == sum(len(near) for one in result.found for near in one.neighbours.values())


def test_enough_occurrences_end_the_first_pass_and_missing_words_are_named() -> None:
    found = Found(Query.checked(["the", "bank"], 1, 1, other_words=False))
    assert [found.add(one.input_index, one) for one in STREAM[:1]] == [True]
    with pytest.raises(bertscope.InvalidArgument, match=r"words\[1\]: is a word of no text"):
        searched(Query.checked(["the", "zebra"], 1, 1, other_words=False))
    assert Query.checked("Bank", 1, 1, other_words=False).may_hold(("A text.", "a bankrupt"))
    for bad in ({"words": []}, {"words": ["a", "A "]}, {"k": 0}, {"occurrences": -1}, {"words": ["w"] * 101}):
        arguments = {"words": "bank", "k": 1, "occurrences": 1, "other_words": False, **bad}
        with pytest.raises(bertscope.InvalidArgument, match=next(iter(bad))):
            Query.checked(**arguments)


def test_variance_is_that_of_the_first_singular_direction(monkeypatch: pytest.MonkeyPatch) -> None:
    def sampled() -> workbench.ExplainableVariance:
        samples = Samples(["Bank", "money", "the"], 3)
        for one in STREAM:
            samples.add(one)
        return samples.result()

    def share(vectors: list[np.ndarray], layer: int) -> float:
        values = np.linalg.eigvalsh(np.array([each[layer] for each in vectors]).T @ np.array([each[layer] for each in vectors]))
        return float(values[-1] / values.sum())

    found = sampled()
    assert list(found.words) == ["Bank", "the"] and found.words["Bank"].vectors == 3
    for layer in range(len(LAYERS)):
        own = share([v for _, word, v in EVERY if word.text.casefold() == "bank"], layer)
        every = share([v for *_, v in EVERY], layer)
        assert found.share("BANK")[layer] == pytest.approx(own, abs=1e-5)
        assert found.baseline[layer] == pytest.approx(every, abs=1e-5)
        assert found.share("bank", adjusted=True)[layer] == pytest.approx(own - found.words["Bank"].baseline[layer], abs=1e-5)
        assert found.mean(occurrences=3)[layer] == pytest.approx(own, abs=1e-5)
    assert np.isnan(found.mean()).all() and len(found.columns()["word"]) == 4
    with pytest.raises(KeyError, match="less than twice"):
        found.share("money")
    # Three random words share more than nine do.
    assert (found.words["Bank"].baseline > found.baseline).all()
    monkeypatch.setattr(variances, "SAMPLED", 2)
    monkeypatch.setattr(variances, "BASELINE", 4)
    one, other = sampled(), sampled()
    assert (one.words["Bank"].vectors, one.words["Bank"].sampled, one.baseline_vectors) == (3, 2, 4)
    np.testing.assert_array_equal(one.baseline, other.baseline)
    with pytest.raises(bertscope.InvalidArgument, match="no text was answered"):
        Samples("bank", 0).result()


def test_words_that_are_no_different_from_others_have_no_adjusted_variance() -> None:
    """However few their vectors are: less the share of all random words, three vectors had .28 too much."""
    found = []
    for seed in range(20):
        numbers = np.random.default_rng(seed)
        samples = Samples("word", seed)
        names = ["word"] * 3 + ["other"] * 197
        for index, name in enumerate(names):
            vectors = numbers.normal(0.2, 1, (len(LAYERS), 1, 32)).astype(np.float32)
            tokens = (token(name, 0),)
            samples.add(HiddenStates(index, name, None, tokens, vectors, LAYERS, 0, SOURCE, "word", "mean"))
        result = samples.result()
        found.append(result.share("word", adjusted=True))
        assert (result.share("word") - result.baseline > 0.1).all()
    # Of 40 numbers, each of three vectors with a standard deviation of about .04.
    assert abs(np.mean(found)) < 0.025
