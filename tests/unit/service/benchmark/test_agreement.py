"""How far predictions are apart: the numbers by another way, the same words for all models, vocabularies that differ."""

import math
from typing import Any

import numpy as np
import pytest
from bertscope_service.analyses import label_distributions
from bertscope_service.analyses.label_distributions import Labelling
from bertscope_service.analyses.metrics import Bootstrap
from bertscope_service.analyses.token_classification import ReadWords
from bertscope_service.benchmark import agreement as module
from bertscope_service.benchmark.agreement import (
    Shared,
    Tally,
    compare,
    distributions,
    label_questions,
    mask_questions,
    shared_pieces,
)
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.errors import FailedPrecondition, InvalidArgument
from numpy.typing import NDArray

from tests.support.made_tokenizers import WHOLE, WORDS, tokenizer

FEW = Bootstrap(resamples=200)
LABELS = ("B-PER", "I-PER", "O")
TEXTS = ("the cat sat on the mat .", "nobody sat waiting on the cat .", "the [MASK] sat on [MASK] .")


REDUCED = tokenizer([".", "mat", "wait", "on", "##ing", "no", "##body", "sat", "cat", "the"])
"""Knows "waiting" and "nobody" in two pieces each, and has other ids."""


def logs(*shape: int, seed: int) -> NDArray[Any]:
    scores = np.random.default_rng(seed).normal(size=shape, scale=2)
    found: NDArray[np.float64] = scores - np.logaddexp.reduce(scores, axis=-1, keepdims=True)
    return found


def test_a_tally_is_over_places_and_its_interval_over_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "COMPARED_PLACES", 2)
    sizes = (1, 5, 2, 7)
    one = [logs(size, 9, seed=size) for size in sizes]
    other = [logs(size, 9, seed=10 + size) for size in sizes]
    tally = Tally(3, Shared())
    tally.add(one[:2], other[:2])
    tally.add(one[2:], other[2:])
    found = tally.agreement(FEW)
    expected = compare(np.concatenate(one), np.concatenate(other), 3).mean(axis=0)
    assert [found.top_1, found.top_k, found.divergence] == pytest.approx(expected.tolist())
    assert (found.places, found.k) == (15, 3)
    assert found.low < found.divergence < found.high
    single = Tally(3, Shared())
    single.add(one[3:], other[3:])
    assert single.agreement(FEW).low < single.agreement(FEW).high


def test_scores_that_are_not_finite_are_refused() -> None:
    broken = logs(2, 9, seed=1)
    broken[1, 3] = math.nan
    with pytest.raises(FailedPrecondition):
        Tally(1, Shared()).add([logs(2, 9, seed=1)], [broken])


def test_words_are_the_same_for_all_models_whatever_they_are_asked_with() -> None:
    alone, both = mask_questions(TEXTS, [WHOLE], seed=3), mask_questions(TEXTS, [WHOLE, WHOLE], seed=3)
    assert [question.sequences[0].ids for question in alone] == [question.sequences[1].ids for question in both]
    other = mask_questions(TEXTS[:1] * 20, [WHOLE], seed=4)
    assert len({tuple(question.sequences[0].ids) for question in other}) > 1
    for question in alone:
        assert [place for place, token in enumerate(question.sequences[0].ids) if token == 4] == [
            *question.observers[0].positions  # type: ignore[attr-defined]
        ]
    assert [question.places for question in alone] == [1, 1, 2]


def test_only_words_in_the_same_pieces_are_masked() -> None:
    """ "nobody" and "waiting" are one piece for one model and two for the other; words stand at other places then."""
    questions = mask_questions(TEXTS[1:2] * 40, [WHOLE, REDUCED], seed=0)
    masked = set()
    for question in questions:
        words = []
        for own, sequence, observer in zip((WHOLE, REDUCED), question.sequences, question.observers, strict=True):
            (place,) = observer.positions  # type: ignore[attr-defined]
            original = own.encode(TEXTS[1]).sequence.ids
            assert sequence.ids[place] == 4
            assert [*sequence.ids[:place], original[place], *sequence.ids[place + 1 :]] == original
            words.append(own.piece(original[place]))
        assert words[0] == words[1]
        masked.add(words[0])
    assert masked == {"sat", "on", "the", "cat", "."}


def test_shared_pieces_are_compared_and_renormalised() -> None:
    shared = shared_pieces(WHOLE, REDUCED, (20, 15), 3)
    assert shared.baseline is not None and shared.model is not None
    assert [WHOLE.piece(number) for number in shared.baseline] == [REDUCED.piece(number) for number in shared.model]
    assert len(shared.model) == REDUCED.size
    whole = logs(3, 20, seed=1)
    reduced = np.full((3, 15), -50.0)
    reduced[:, shared.model] = whole[:, shared.baseline]
    fitted = shared.fit(whole, reduced)
    assert np.exp(fitted[0]).sum(axis=1) == pytest.approx(1)
    assert compare(*fitted, 3)[:, 2] == pytest.approx(0, abs=1e-5)
    assert shared_pieces(WHOLE, tokenizer(WORDS), (20, 20), 3) == Shared()
    assert shared_pieces(WHOLE, WHOLE, (20, 24), 3).baseline is not None, "another size of output is another vocabulary"


@pytest.mark.parametrize(("words", "k"), [(["of", "and", "to", "a", "in", "for", "is", "with", "at"], 1), (WORDS[:9], 16)])
def test_vocabularies_that_share_too_little_are_refused(words: list[str], k: int) -> None:
    with pytest.raises(InvalidArgument) as caught:
        shared_pieces(WHOLE, tokenizer(words), (17, 14), k)
    assert caught.value.reason == "VOCABULARIES_DIFFER"


@pytest.mark.parametrize(
    ("text", "reason"),
    [("the cat " * 40, "TEXT_TOO_LONG"), ("dog dog", "NO_WORD"), ("waiting nobody", "NO_WORD"), ("\u200b", "EMPTY_TEXT")],
)
def test_texts_that_can_not_be_compared_are_refused(text: str, reason: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        mask_questions(["the cat", text], [WHOLE, REDUCED], seed=0)
    assert caught.value.field == "agreement_texts[1]"
    assert caught.value.reason in (reason, "NO_WORD")
    if reason == "TEXT_TOO_LONG":
        with pytest.raises(InvalidArgument):
            label_questions(["the cat", text], [WHOLE], Labelling.TEXTS, LABELS)


def test_labels_are_those_of_words_that_all_models_read() -> None:
    """At the words' first pieces, which lie elsewhere in each."""
    (question,) = label_questions([f"nobody {TEXTS[0]}"], [WHOLE, REDUCED], Labelling.WORDS, LABELS)
    starts = []
    for own, sequence, observer in zip((WHOLE, REDUCED), question.sequences, question.observers, strict=True):
        encoded = own.encode(f"nobody {TEXTS[0]}")
        assert [*sequence.ids] == [*encoded.sequence.ids]
        starts.append([encoded.span(place)[0] for place in observer.positions])  # type: ignore[attr-defined]
    assert starts[0] == starts[1] == [0, 7, 11, 15, 19, 22, 26, 30]
    assert question.places == 8


def test_a_label_that_may_hold_is_a_distribution_of_its_own() -> None:
    scores = np.array([2.0, -1.0, 0.0], dtype=np.float32)
    (question,) = label_questions(["the cat"], [WHOLE], Labelling.SETS, LABELS)
    found = distributions(question, scores)
    assert found.shape == (question.places, 2) == (3, 2)
    shares = 1 / (1 + np.exp(-scores))
    assert np.exp(found) == pytest.approx(np.stack([shares, 1 - shares], axis=1), abs=1e-6)


def test_a_text_without_a_word_that_all_models_read_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(label_distributions, "find_words", lambda text, *_: ReadWords(text, (), ()))
    with pytest.raises(InvalidArgument, match="no word that all models read") as caught:
        label_questions(["the cat"], [WHOLE], Labelling.WORDS, LABELS)
    assert (caught.value.field, caught.value.reason) == ("agreement_texts[0]", "NO_WORD")


def test_masks_that_only_one_model_knows_are_refused() -> None:
    other = TextTokenizer(WHOLE.backend, "[PAD]", 0, 1, 64)
    with pytest.raises(InvalidArgument) as caught:
        mask_questions(["the [PAD] sat"], [WHOLE, other], seed=0)
    assert caught.value.reason == "MASKS_DIFFER"
