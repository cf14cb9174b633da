"""CompareTexts through gRPC: outcomes are those of the scores, ties are exact, and bad sets are refused by their field."""

from typing import Any

import grpc
import pytest
from bertscope.v1 import cloze_scores_pb2 as scores

from tests.support.calls import call
from tests.support.harness import Host
from tests.support.tiny import SENTENCES

INVALID = grpc.StatusCode.INVALID_ARGUMENT
RIGHT, TIE, WRONG = (scores.ComparedSet.Outcome.Value(f"OUTCOME_{name}") for name in ("RIGHT", "TIE", "WRONG"))
PAIRS = [
    ("The keys to the cabinet are old.", "The keys to the cabinet is old."),
    ("The dog walked to the market.", "The dog walked market to the."),
    ("Nobody waited.", "Nobody unplayable."),
    ("She plays the violin.", "She play the violin."),
]


def text_set(*texts: str, **fields: Any) -> scores.TextSet:
    return scores.TextSet(texts=[scores.ScoredInput(text=text) for text in texts], **fields)


@pytest.mark.slow
@pytest.mark.parametrize(("model", "scoring"), [("models/bert", 0), ("models/roberta", 1), ("models/bert", 3)])
def test_outcomes_are_those_of_the_scores(host: Host, model: str, scoring: int) -> None:
    sets = [text_set(*pair, groups=["a"]) for pair in PAIRS]
    sets += [text_set(*pair[::-1], groups=["b", "a"]) for pair in PAIRS]
    sets += [text_set(*SENTENCES[:5], right=3, groups=["b"]), text_set("The cat sat.", "The cat sat.")]
    reply = call(host, "CompareTexts", sets=sets, model=model, scoring=scoring)
    inputs = [text for one in sets for text in one.texts]
    found = iter(call(host, "ScoreTexts", model=model, inputs=inputs, scoring=scoring).results)
    outcomes, differences = [], []
    for one, result in zip(sets, reply.results, strict=True):
        alone = [next(found) for _ in one.texts]
        expected = [score.log_likelihood for score in alone]
        assert list(result.log_likelihoods) == pytest.approx(expected, rel=1e-5)
        assert list(result.scored_pieces) == [score.scored_pieces for score in alone]
        right = expected.pop(one.right)
        differences.append(result.log_likelihoods[one.right] - max(expected))
        outcomes.append(RIGHT if right > max(expected) else WRONG if right < max(expected) else TIE)
    assert [result.outcome for result in reply.results] == outcomes
    assert outcomes[-1] == TIE
    assert reply.scoring == (scoring or 2)
    members = {"": range(len(sets)), "a": range(8), "b": range(4, 9)}
    assert [counts.group for counts in reply.counts] == list(members)
    for counts in reply.counts:
        chosen = [outcomes[index] for index in members[counts.group]]
        assert (counts.right, counts.tied, counts.wrong) == (chosen.count(RIGHT), chosen.count(TIE), chosen.count(WRONG))
        its = [differences[index] for index in members[counts.group]]
        assert counts.difference_sum == pytest.approx(sum(its), abs=1e-3)
        assert counts.difference_squares == pytest.approx(sum(value**2 for value in its), rel=1e-3)


def test_critical_regions(host: Host) -> None:
    critical = text_set(*PAIRS[0])
    for text, word in zip(critical.texts, ("are", "is"), strict=True):
        start = text.text.index(word)
        text.spans.add(start=start, end=start + len(word))
    (region,) = call(host, "CompareTexts", sets=[critical]).results
    assert list(region.scored_pieces) == [1, 1]
