"""Objectives keep what they are given, refuse what is of the wrong type, and become the messages of the contract."""

import dataclasses
from types import SimpleNamespace
from typing import Any

import bertscope
import numpy as np
from bertscope.questions.ablation import requests
from bertscope.v1 import ablation_pb2

from tests.support.sent_requests import sent

TEXTS = bertscope.MaskedLmLoss(["a b"])


def message(objective: Any) -> ablation_pb2.Objective:
    return requests.objective_message(objective)


def sweep(objective: Any = TEXTS, **arguments: Any) -> Any:
    return sent("sweep_heads", objective=objective, **arguments)


def test_objectives_become_messages(stored) -> None:
    asked = [("Who?", "The cat sat.", "cat"), ("b", "東京 x 東京", ["東京", (5, 7), [3, 4]]), ("c", "d", [])]
    marked = bertscope.ProbeText(("a b", "c"), [("y", 0, 1, 1), ("z", 2, 3), ("x", 0, 1)])
    given = [
        bertscope.MaskedLmLoss(iter(["a", "b"]), seed=2**64 - 1, mask_share=0.3, truncate=True),
        bertscope.ClozePrompts((("a [MASK]", "x"), ["b [MASK]", ["y", "z"]]), skip_multi_piece=True),
        bertscope.MinimalPairs([("good", "bad")], scoring="original"),
        bertscope.RatedTexts([("a", 1), (("a", "b"), np.float32(0.5))]),
        bertscope.SimilarTexts([(("a", "b"), 1), (("c", "d"), np.float32(0.5))], pooling="first"),
        bertscope.LabelSets([("a", ["x", "y"]), (("a", "b"), ())]),
        bertscope.LabelledQuestions(asked, stride=3, no_answer_threshold=0),
        bertscope.LabelledTexts([("a", "yes"), (("a", "b"), np.int64(0)), ("c", "1")]),
        bertscope.LabelledWords([marked]),
        *(bertscope.Divergence(inputs) for inputs in ("a", ("a", "b"), ["a", "b"], [("a", "b"), "c"])),
    ]
    for objective in given:
        if isinstance(objective, bertscope.LabelledQuestions):  # it has nothing to truncate
            continue
        # Two texts must not become a pair on the way, and what a generator gave is kept.
        again = dataclasses.replace(objective, truncate=not objective.truncate)
        found, expected = message(again), message(objective)
        found.truncate = expected.truncate
        assert found == expected
        assert hash(objective) != hash(again)
    stored(messages=[message(objective) for objective in given])


def test_what_is_no_objective(stored) -> None:
    pair = bertscope.ProbeText("a b", [("x", (0, 1), (2, 3))])
    stored(
        refused=[
            lambda: bertscope.ClozePrompts(["a [MASK]"]),
            lambda: bertscope.ClozePrompts([("a", "b"), ("a", None)]),
            lambda: bertscope.ClozePrompts([("a", ["b", 2])]),
            lambda: bertscope.MinimalPairs([("a", None)]),
            lambda: bertscope.SimilarTexts([("a", 1.0)]),
            lambda: bertscope.LabelledQuestions([("a", "b")]),
            lambda: bertscope.LabelledQuestions([("a", "b", "c")]),
            lambda: bertscope.LabelledQuestions([("a", "b", (-1, 1))]),
            lambda: bertscope.LabelledQuestions([("a", "b", "b"), ("a", "b", None)]),
            lambda: bertscope.LabelledTexts(["a"]),
            lambda: bertscope.LabelledTexts([("a", True)]),
            lambda: bertscope.LabelledTexts([("a", 1.0)]),
            lambda: bertscope.LabelledTexts([("a", -1)]),
            lambda: bertscope.LabelledTexts([(("a", 1), "x")]),
            lambda: bertscope.LabelSets([("a", "x")]),
            lambda: bertscope.LabelSets([("a", []), ("b", ["x", "x"])]),
            lambda: bertscope.LabelSets([("a", ["x", 3])]),
            lambda: bertscope.LabelledWords("a"),
            lambda: bertscope.LabelledWords([pair]),
            lambda: bertscope.LabelledWords([SimpleNamespace(text="a", labels=[3])]),
            lambda: bertscope.RatedTexts([("a", 1), ("a", "1")]),
            lambda: bertscope.RatedTexts([("a", float("nan"))]),
            lambda: bertscope.Divergence([1]),
        ]
    )


def test_sweeps_rankings_and_pruning(stored) -> None:
    greedy = bertscope.Greedy("best_remaining", step=2, max_removed=5, metric="loss")
    changed: dict[str, Any] = {"interventions": bertscope.mean(1), "reference_texts": "r"}
    bootstrap = {"resamples": 200, "seed": 7, "confidence": 0.9}
    whole = sweep(model="x", mode="scale", factor=0, scope="layers", memory_bytes=2**33, greedy=greedy, **changed, **bootstrap)

    def prune(heads: Any, model_id: Any = "x") -> Any:
        return sent("prune_heads", model_id=model_id, heads=heads)

    stored(
        bare=sweep(),
        whole=whole,
        default_curve=sweep(greedy=bertscope.Greedy()),
        sets=[sweep(sets=[{3: [1, 4], np.int64(0): None}, {5: np.int64(2)}]), sweep(sets={3: 1})],
        prune=prune({3: (1, 4), 0: None}, "models/new"),
        rank=sent("rank_heads", objective=TEXTS, model="m", interventions=bertscope.zero(1), reference_texts=["r"]),
        refused=[
            lambda: sweep(["a"]),
            lambda: sweep(mode="nothing"),
            lambda: sweep(mode="scale"),
            lambda: sweep(factor=1),
            lambda: sweep(scope="heads", sets=[{0: 1}]),
            lambda: sweep(scope="model"),
            lambda: sweep(sets=[]),
            lambda: sweep(sets=3),
            lambda: sweep(sets=[{0: 1}, [0]]),
            lambda: sweep(sets=[{3: []}]),
            lambda: sweep(sets=[{3: [1, "2"]}]),
            lambda: sweep(sets=[{"3": 1}]),
            lambda: sweep(seed=None),
            lambda: sweep(memory_bytes="1GiB"),
            lambda: sweep(greedy="effect"),
            lambda: prune([3]),
            lambda: prune({3: ()}),
            lambda: prune({3: True}),
        ],
    )
