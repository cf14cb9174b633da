"""Objectives keep what they are given, refuse what is of the wrong type, and become the messages of the contract."""

import dataclasses
import doctest
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import bertscope
import numpy as np
import pytest
from bertscope.questions.ablation import objectives, requests, task_objectives
from bertscope.v1 import ablation_pb2, common_pb2, representation_states_pb2

TEXTS = bertscope.MaskedLmLoss(["a b"])


def sweep(objective: Any = TEXTS, **arguments: Any) -> ablation_pb2.SweepHeadsRequest:
    defaults: dict[str, Any] = {
        "model": None,
        "mode": "zero",
        "factor": None,
        "scope": None,
        "sets": None,
        "reference_texts": (),
        "interventions": (),
        "resamples": None,
        "seed": 0,
        "confidence": None,
        "memory_bytes": None,
        "greedy": None,
    }
    return requests.sweep_heads(objective, **(defaults | arguments))


def message(objective: Any) -> ablation_pb2.Objective:
    return requests.objective_message(objective)


def test_examples_in_docstrings():
    for module, examples in ((objectives, 2), (task_objectives, 3)):
        assert doctest.testmod(module).failed == 0
        assert doctest.testmod(module).attempted == examples


def test_masked_lm_loss():
    found = message(bertscope.MaskedLmLoss(iter(["a", "b"]), seed=2**64 - 1, mask_share=0.3, truncate=True))
    assert list(found.masked_lm_loss.texts) == ["a", "b"]
    assert (found.masked_lm_loss.seed, found.masked_lm_loss.mask_share, found.truncate) == (2**64 - 1, 0.3, True)
    assert not message(bertscope.MaskedLmLoss("one")).masked_lm_loss.HasField("mask_share")


def test_cloze_prompts():
    found = message(bertscope.ClozePrompts([("a [MASK]", "x"), ["b [MASK]", ["y", "z"]]], skip_multi_piece=True))
    assert [(prompt.text, list(prompt.answers)) for prompt in found.cloze.prompts] == [
        ("a [MASK]", ["x"]),
        ("b [MASK]", ["y", "z"]),
    ]
    assert found.cloze.skip_multi_piece
    assert not found.truncate


def test_minimal_pairs():
    found = message(bertscope.MinimalPairs([("good", "bad")], scoring="original")).minimal_pairs
    assert [(pair.good, pair.bad) for pair in found.pairs] == [("good", "bad")]
    assert found.scoring == common_pb2.PSEUDO_LOG_LIKELIHOOD_ORIGINAL
    default = message(bertscope.MinimalPairs([])).minimal_pairs
    assert default.scoring == common_pb2.PSEUDO_LOG_LIKELIHOOD_WITHIN_WORD


def test_rated_texts():
    found = message(bertscope.RatedTexts([("a", 1), (("a", "b"), np.float32(0.5))])).regression.texts
    assert [(each.input.text, each.input.text_pair, each.value) for each in found] == [("a", "", 1.0), ("a", "b", 0.5)]


def test_similar_texts():
    given = bertscope.SimilarTexts([(("a", "b"), 1), (("c", "d"), np.float32(0.5))], pooling="first")
    found = message(given).similarity
    assert [(each.input.text, each.input.text_pair, each.value) for each in found.pairs] == [("a", "b", 1.0), ("c", "d", 0.5)]
    assert found.pooling == representation_states_pb2.STATE_POOLING_FIRST
    with pytest.raises(bertscope.InvalidArgument, match=r"pairs\[0\]\.input: must be a pair of texts"):
        bertscope.SimilarTexts([("a", 1.0)])


def test_label_sets():
    found = message(bertscope.LabelSets([("a", ["x", "y"]), (("a", "b"), ())])).multi_label.texts
    assert [(each.input.text, each.input.text_pair, list(each.labels)) for each in found] == [
        ("a", "", ["x", "y"]),
        ("a", "b", []),
    ]


def test_labelled_questions():
    asked = [("Who?", "The cat sat.", "cat"), ("b", "東京 x 東京", ["東京", (5, 7), [3, 4]]), ("c", "d", [])]
    found = message(bertscope.LabelledQuestions(asked, stride=3, no_answer_threshold=0)).question_answering
    assert [[(span.start, span.end) for span in each.answers] for each in found.questions] == [
        [(4, 7)],
        [(0, 2), (5, 7), (3, 4)],
        [],
    ]
    assert (found.questions[0].input.question, found.questions[0].input.passage) == ("Who?", "The cat sat.")
    assert (found.stride, found.no_answer_threshold, found.HasField("max_answer_tokens")) == (3, 0.0, False)
    assert not message(bertscope.LabelledQuestions([("a", "bc", (0, 1))])).question_answering.HasField("no_answer_threshold")


def test_labelled_texts():
    found = message(bertscope.LabelledTexts([("a", "yes"), (("a", "b"), np.int64(0)), ("c", "1")])).classification.texts
    assert [each.WhichOneof("gold") for each in found] == ["label", "label_index", "label"]
    assert (found[0].label, found[1].label_index, found[2].label) == ("yes", 0, "1")
    assert [(each.input.text, each.input.text_pair, each.input.HasField("text_pair")) for each in found] == [
        ("a", "", False),
        ("a", "b", True),
        ("c", "", False),
    ]


def test_labelled_words():
    given = bertscope.ProbeText(("a b", "c"), [("y", 0, 1, 1), ("z", 2, 3), ("x", 0, 1)])
    objective = bertscope.LabelledWords([given])
    (found,) = message(objective).token_classification.texts
    assert (found.input.text, found.input.text_pair) == ("a b", "c")
    assert [(word.label, word.span.start, word.span.end, word.span.segment) for word in found.words] == [
        ("x", 0, 1, 0),
        ("z", 2, 3, 0),
        ("y", 0, 1, 1),
    ]
    assert message(bertscope.LabelledWords(objective.texts)) == message(objective)
    pair = bertscope.ProbeText("a b", [("x", (0, 1), (2, 3))])
    for bad in ("a", [("a", [])], [pair], [SimpleNamespace(text="a", labels=[3])]):
        with pytest.raises(bertscope.InvalidArgument, match="texts"):
            bertscope.LabelledWords(bad)


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        ("a", [("a", "")]),
        (("a", "b"), [("a", "b")]),
        (["a", "b"], [("a", ""), ("b", "")]),
        ([("a", "b"), "c"], [("a", "b"), ("c", "")]),
    ],
)
def test_divergence(inputs, expected):
    objective = bertscope.Divergence(inputs)
    again = dataclasses.replace(objective, truncate=True)  # Two texts must not become a pair on the way.
    for each in (objective, again):
        assert [(text.text, text.text_pair) for text in message(each).divergence.inputs] == expected
    assert hash(objective) != hash(again)


def test_an_objective_of_a_generator_may_be_used_twice():
    objective = bertscope.ClozePrompts((text, "x") for text in ("a", "b"))
    assert len(message(objective).cloze.prompts) == len(message(objective).cloze.prompts) == 2


def test_what_is_left_out_of_a_sweep_is_unset():
    request = sweep()
    assert request.scope == ablation_pb2.SweepHeadsRequest.SCOPE_EVERY_HEAD
    assert request.mode == common_pb2.HeadIntervention.MODE_ZERO
    for field in ("scale", "memory_bytes", "greedy"):
        assert not request.HasField(field)
    for field in ("resamples", "confidence"):
        assert not request.bootstrap.HasField(field)


def test_everything_in_a_sweep():
    request = sweep(
        model="x",
        mode="scale",
        factor=0,
        scope="layers",
        interventions=bertscope.mean(1),
        reference_texts="r",
        resamples=200,
        seed=7,
        confidence=0.9,
        memory_bytes=2**33,
        greedy=bertscope.Greedy("best_remaining", step=2, max_removed=5, metric="loss"),
    )
    assert (request.model, request.mode, request.HasField("scale"), request.scale) == ("models/x", 4, True, 0)
    assert request.scope == ablation_pb2.SweepHeadsRequest.SCOPE_EVERY_LAYER
    assert (request.interventions[0].mode, list(request.reference_texts)) == (3, ["r"])
    assert (request.bootstrap.resamples, request.bootstrap.seed, request.bootstrap.confidence) == (200, 7, 0.9)
    assert request.memory_bytes == 2**33
    assert request.greedy == ablation_pb2.Greedy(order=3, step=2, max_removed=5, metric=ablation_pb2.METRIC_LOSS)


def test_the_default_curve():
    assert sweep(greedy=bertscope.Greedy()).greedy == ablation_pb2.Greedy(order=1, step=1, max_removed=0, metric=0)


def test_sets_of_heads():
    request = sweep(sets=[{3: [1, 4], np.int64(0): None}, {5: np.int64(2)}])
    assert request.scope == ablation_pb2.SweepHeadsRequest.SCOPE_UNSPECIFIED
    assert [[(each.layer, list(each.heads)) for each in heads.layers] for heads in request.sets] == [
        [(0, []), (3, [1, 4])],
        [(5, [2])],
    ]
    assert len(sweep(sets={3: 1}).sets) == 1


def test_pruning():
    heads = {3: (1, 4), 0: None}
    request = requests.prune_heads("models/new", heads, model=None, folder=None)
    assert (request.model_id, request.model, request.folder) == ("new", "", "")
    assert [(each.layer, list(each.heads)) for each in request.heads] == [(0, []), (3, [1, 4])]


def test_ranking():
    request = requests.rank_heads(TEXTS, model="m", interventions=bertscope.zero(1), reference_texts=["r"])
    assert (request.model, list(request.objective.masked_lm_loss.texts)) == ("models/m", ["a b"])
    assert (request.interventions[0].layer, list(request.reference_texts)) == (1, ["r"])


def prune(heads: Any, model_id: Any = "x") -> Any:
    return requests.prune_heads(model_id, heads, model=None, folder=None)


@pytest.mark.parametrize(
    ("field", "build"),
    [
        ("texts[1]", lambda: bertscope.MaskedLmLoss(["a", 1])),
        ("texts", lambda: bertscope.MaskedLmLoss(None)),
        ("seed", lambda: bertscope.MaskedLmLoss("a", seed=-1)),
        ("seed", lambda: bertscope.MaskedLmLoss("a", seed=2**64)),
        ("mask_share", lambda: bertscope.MaskedLmLoss("a", mask_share="0.1")),
        ("mask_share", lambda: bertscope.MaskedLmLoss("a", mask_share=float("nan"))),
        ("truncate", lambda: bertscope.MaskedLmLoss("a", truncate=1)),
        ("prompts", lambda: bertscope.ClozePrompts("a [MASK]")),
        ("prompts[0]", lambda: bertscope.ClozePrompts(["a [MASK]"])),
        ("prompts[0]", lambda: bertscope.ClozePrompts([("a", "b", "c")])),
        ("prompts[0].text", lambda: bertscope.ClozePrompts([(1, "b")])),
        ("prompts[1].answers", lambda: bertscope.ClozePrompts([("a", "b"), ("a", None)])),
        ("prompts[0].answers[1]", lambda: bertscope.ClozePrompts([("a", ["b", 2])])),
        ("skip_multi_piece", lambda: bertscope.ClozePrompts([], skip_multi_piece=0)),
        ("pairs[0]", lambda: bertscope.MinimalPairs(["ab"])),
        ("pairs[0].bad", lambda: bertscope.MinimalPairs([("a", None)])),
        ("scoring", lambda: bertscope.MinimalPairs([], scoring="newest")),
        ("questions[0]", lambda: bertscope.LabelledQuestions([("a", "b")])),
        ("questions[0].answers[0]", lambda: bertscope.LabelledQuestions([("a", "b", "c")])),
        ("questions[0].answers[0].start", lambda: bertscope.LabelledQuestions([("a", "b", (-1, 1))])),
        ("questions[1].answers", lambda: bertscope.LabelledQuestions([("a", "b", "b"), ("a", "b", None)])),
        ("no_answer_threshold", lambda: bertscope.LabelledQuestions([], no_answer_threshold=float("nan"))),
        ("stride", lambda: bertscope.LabelledQuestions([], stride=0)),
        ("texts[0]", lambda: bertscope.LabelledTexts(["a"])),
        ("texts[0].labels", lambda: bertscope.LabelSets([("a", "x")])),
        ("texts[1].labels", lambda: bertscope.LabelSets([("a", []), ("b", ["x", "x"])])),
        ("texts[0].labels[1]", lambda: bertscope.LabelSets([("a", ["x", 3])])),
        ("texts[1].value", lambda: bertscope.RatedTexts([("a", 1), ("a", "1")])),
        ("texts[0].value", lambda: bertscope.RatedTexts([("a", float("nan"))])),
        ("texts[0].label", lambda: bertscope.LabelledTexts([("a", True)])),
        ("texts[0].label", lambda: bertscope.LabelledTexts([("a", 1.0)])),
        ("texts[0].label", lambda: bertscope.LabelledTexts([("a", -1)])),
        ("texts[0].input.text_pair", lambda: bertscope.LabelledTexts([(("a", 1), "x")])),
        ("texts[0].input", lambda: bertscope.LabelledTexts([(("a", "b", "c"), "x")])),
        ("inputs[0].text", lambda: bertscope.Divergence([1])),
        ("step", lambda: bertscope.Greedy(step=0)),
        ("max_removed", lambda: bertscope.Greedy(max_removed=0)),
        ("order", lambda: bertscope.Greedy(order="random")),
        ("metric", lambda: bertscope.Greedy(metric="f1")),
        ("objective", lambda: sweep(["a"])),
        ("mode", lambda: sweep(mode="nothing")),
        ("factor", lambda: sweep(mode="scale")),
        ("factor", lambda: sweep(factor=1)),
        ("factor", lambda: sweep(mode="scale", factor=float("inf"))),
        ("scope", lambda: sweep(scope="model")),
        ("scope", lambda: sweep(scope="heads", sets=[{0: 1}])),
        ("sets", lambda: sweep(sets=[])),
        ("sets", lambda: sweep(sets=3)),
        ("sets[1]", lambda: sweep(sets=[{0: 1}, [0]])),
        ("sets[0][3]", lambda: sweep(sets=[{3: []}])),
        ("sets[0][3][1]", lambda: sweep(sets=[{3: [1, "2"]}])),
        ("sets[0]'s layer", lambda: sweep(sets=[{"3": 1}])),
        ("resamples", lambda: sweep(resamples=1.5)),
        ("seed", lambda: sweep(seed=None)),
        ("confidence", lambda: sweep(confidence="0.9")),
        ("memory_bytes", lambda: sweep(memory_bytes="1GiB")),
        ("greedy", lambda: sweep(greedy="effect")),
        ("reference_texts[0]", lambda: sweep(reference_texts=[None])),
        ("heads", lambda: prune([3])),
        ("heads[3]", lambda: prune({3: ()})),
        ("heads[3]", lambda: prune({3: True})),
        ("model_id", lambda: prune({3: 1}, model_id=None)),
    ],
)
def test_what_cannot_be_sent_names_its_field(field: str, build: Callable[[], Any]):
    with pytest.raises(bertscope.InvalidArgument) as caught:
        build()
    assert [violation.field for violation in caught.value.field_violations] == [field]
    assert str(caught.value).startswith(f"{field}: ")


def test_layers_of_no_heads_are_not_all_heads():
    with pytest.raises(bertscope.InvalidArgument, match="None to mean all heads"):
        prune({3: np.array([], dtype=int).tolist()})
