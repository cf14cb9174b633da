"""A real server answers alike in one call, in many small ones, from a generator, and to the asynchronous client."""

from collections.abc import Callable, Iterator
from typing import Any

import bertscope
import numpy as np
import pytest
from bertscope.questions.attribution import inputs as attributed
from bertscope.questions.scores import inputs as scored
from bertscope.rpc import pacing

from tests.support.both_clients import asked_async
from tests.support.harness import Host
from tests.support.tiny import SENTENCES

TARGET = bertscope.Answer("old", "young")
LONG = "The keys to the cabinet that the man saw are [MASK] and the dog walked to the market."
TEXTS = [*SENTENCES, ("The cat sat.", "A dog, too."), bertscope.conditional("The keys to the cabinet", "are", "old.")]
PAIRS = [
    ("The keys to the cabinet are old.", "The keys to the cabinet is old."),
    ("She plays the violin.", "She play the violin."),
    ("The cat sat.", "The cat sat."),
]
MASKED = ["The man was [MASK].", LONG, ("The cat [MASK].", "A dog, too."), LONG, "She was [MASK]."]
TRACED = ["The man was [MASK].", "The cat was [MASK] here."], ["The dog was [MASK].", "A cat was [MASK] here."]
CAPITAL = bertscope.FactRelation("capital", ["The capital of [X] is [Y].", "[X] has the capital [Y]."])
FACTS = [bertscope.Fact(f"{word} {number}", ["the", "cat"], "capital") for number, word in enumerate(["France", "Rome"] * 20)]

Ask = Callable[[Any, Callable[[Any], Any]], Any]
ASKED: dict[str, tuple[Ask, Callable[[Any], Any]]] = {
    "score_texts": (
        lambda client, given: client.score_texts(given(TEXTS)),
        lambda found: [(one.log_likelihood, one.scored_words, *(word.log_probability for word in one.words)) for one in found],
    ),
    "compare_texts": (
        lambda client, given: client.compare_texts(given(PAIRS)),
        lambda found: [(*one.log_likelihoods, *one.scored_pieces, one.outcome == "tie") for one in found.sets],
    ),
    "attribute_words": (
        lambda client, given: client.attribute_words(given(MASKED), TARGET, pairs=6),
        lambda found: [(*one.values, one.value, one.value_absent, one.pairs) for one in found],
    ),
    "trace": (
        lambda client, _: client.trace(*TRACED, TARGET, sites=["state", "heads"], positions="together"),
        lambda found: [(one.layer, one.position, one.sum, one.count) for one in found.effects],
    ),
    "extract_hidden_states": (
        lambda client, given: client.extract_hidden_states(given([*SENTENCES[:3], ("A pair", "of texts")]), layers=[4, 0]),
        lambda found: [one.states.ravel() for one in found],
    ),
    "score_features": (
        lambda client, given: client.score_features(given([bertscope.FeatureText("the cat sat", [("noun", 4, 7)])] * 5)),
        lambda found: [one.attention.mean() for one in found.features.values()],
    ),
    "compare_attention": (
        lambda client, given: client.compare_attention(given([*SENTENCES, ("A pair?", "Yes, a pair.")]), "headless"),
        lambda found: [
            (found.texts, found.tokens, *found.cosine.mean().ravel(), *found.divergence.standard_error().ravel()),
            *(found.difference(name).ravel() for name in found.differences),
        ],
    ),
    "query_facts": (
        lambda client, given: client.query_facts(given(FACTS), CAPITAL, prior=True),
        lambda found: [[(each.rank or 0, each.prior_rank or 0) for each in one.answers] for one in found],
    ),
}
"""Questions, and the numbers of their answers."""


@pytest.mark.parametrize("name", ASKED)
def test_every_way_gives_the_same_numbers(host: Host, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    ask, numbers = ASKED[name]
    with bertscope.Client(host.target) as client:

        def answer(given: Callable[[Any], Any]) -> Any:
            found = ask(client, given)
            return numbers([*found] if isinstance(found, Iterator) else found)

        whole, lazily = answer(list), answer(iter)
        for module, constant in (
            (pacing, "FIRST_WORK"),
            (pacing, "CALL_SECONDS"),
            (scored, "PART_WORK"),
            (attributed, "PART_WORK"),
        ):
            monkeypatch.setattr(module, constant, 0.0)
        divided = answer(list)
    for other in (lazily, divided, numbers(asked_async(host.target, lambda client: ask(client, iter)))):
        assert len(other) == len(whole)
        for one, same in zip(other, whole, strict=True):
            np.testing.assert_allclose(np.array(one, float), np.array(same, float), rtol=1e-4, atol=1e-4)


def test_a_comparison_of_attention_names_both_models_and_takes_their_difference(host: Host) -> None:
    with bertscope.Client(host.target) as client:
        whole = client.compare_attention(list(SENTENCES), "headless")
        first, second = (client.describe_attention(list(SENTENCES), model=name) for name in ("bert", "headless"))
    for name in whole.differences:
        np.testing.assert_allclose(whole.difference(name), second.mean(name) - first.mean(name), rtol=0, atol=1e-5)
    assert repr(whole).splitlines()[0].endswith(f"{first.tokens} tokens, models/bert and models/headless>")
    with pytest.raises(KeyError, match="no text has the statistic 'other_text'"):
        whole.difference("other_text")
