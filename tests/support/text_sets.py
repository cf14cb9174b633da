"""Comparisons of minimal pairs, made up."""

from typing import Any

import bertscope
from bertscope.questions.scores.comparison import read_compared_sets
from bertscope.questions.scores.inputs import asked_sets
from bertscope.v1 import cloze_scores_pb2 as scores_pb2

from tests.support.descriptions import PROVENANCE

OUTCOMES = {"right": 1, "tie": 2, "wrong": 3}


def comparison(outcomes: str, groups: Any = lambda index: ("a", f"b{index % 2}"), model: str = "models/fake") -> Any:
    """A comparison of pairs whose outcomes are the letters r, t and w."""
    sets = [bertscope.TextSet([f"good {index}", f"bad {index}"], groups=groups(index)) for index in range(len(outcomes))]
    names = {"r": (1.0, "right"), "t": (0.0, "tie"), "w": (-2.0, "wrong")}
    results = [
        scores_pb2.ComparedSet(
            log_likelihoods=[-5.0 + names[letter][0], -5.0], scored_pieces=[2, 2], outcome=OUTCOMES[names[letter][1]]
        )
        for letter in outcomes
    ]
    provenance = type(PROVENANCE)()
    provenance.CopyFrom(PROVENANCE)
    provenance.model = model
    reply = scores_pb2.CompareTextsResponse(results=results, scoring=1, provenance=provenance)
    asked = list(asked_sets(sets, critical_region=False).items)
    return bertscope.TextComparison(tuple(read_compared_sets(asked, reply)))
