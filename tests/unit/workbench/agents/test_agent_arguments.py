"""Agents write texts, heads and names in short; a wrong field names the right ones."""

import pytest
from bertscope.errors import InvalidArgument
from bertscope_workbench.agents.arguments import request
from bertscope_workbench.agents.contract import operations

ZERO = [{"layer": 2, "heads": [3], "mode": "MODE_ZERO"}]
ARE_OVER_IS, X = {"mask": {"answer": "are", "other": "is"}}, {"label": {"label": "x"}}


@pytest.mark.parametrize(
    ("name", "short", "whole"),
    [
        ("classify", {"inputs": ["a", ["b", "c"]]}, {"inputs": [{"text": "a"}, {"text": "b", "textPair": "c"}]}),
        ("classify", {"texts": "a"}, {"inputs": [{"text": "a"}]}),
        ("fill_mask", {"inputs": [{"text": "a [MASK]"}], "top_k": 2}, {"texts": ["a [MASK]"], "topK": 2}),
        (
            "fill_mask",
            {"texts": "[MASK]", "interventions": {"layer": 2, "heads": 3, "mode": "zero"}},
            {"texts": ["[MASK]"], "interventions": ZERO},
        ),
        ("fill_mask", {"texts": "[MASK]", "interventions": {"2": [3]}}, {"texts": ["[MASK]"], "interventions": ZERO}),
        ("attribute_words", {"inputs": {"text": "a", "target": "are, is"}}, {"inputs": [{"text": "a", "target": ARE_OVER_IS}]}),
        ("attribute_words", {"inputs": {"text": "a", "target": {"label": "x"}}}, {"inputs": [{"text": "a", "target": X}]}),
        ("compare_texts", {"texts": [["good", "bad"]]}, {"sets": [{"texts": ["good", "bad"]}]}),
        ("sweep_heads", {"sets": [{"1": [0, 2]}]}, {"sets": [{"layers": [{"layer": 1, "heads": [0, 2]}]}]}),
        ("prune_heads", {"heads": {"1": 0}, "modelId": "m"}, {"heads": [{"layer": 1, "heads": [0]}], "modelId": "m"}),
        ("find_contexts", {"texts": ["a"]}, {"texts": [{"text": {"input": {"text": "a"}}}]}),
        (
            "attribute_logits",
            {"inputs": {"text": "a", "answer": "b"}},
            {"inputs": [{"text": "a", "answer": "b"}]},
        ),
    ],
)
def test_a_short_form_means_the_whole_one(name, short, whole):
    operation = operations()[name]
    assert request(operation, short) == request(operation, whole)


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("classify", {"inputs": ["a"], "topk": 3}, "topk: is no field of ClassifyRequest, which has model, inputs"),
        ("fill_mask", {"texts": ["a"], "topk": 3}, "topk: is no field of FillMaskRequest; did you mean topK?"),
        (
            "fill_mask",
            {"texts": ["a"], "interventions": [{"head": 1}]},
            "interventions[0].head: is no field of HeadIntervention; did you mean heads?",
        ),
        ("fill_mask", {"texts": 3}, "`describe` tells the fields of fill_mask"),
        ("fill_mask", {"texts": ["a"], "decoding": "fast"}, "`describe` tells the fields of fill_mask"),
    ],
)
def test_a_wrong_field_names_the_right_ones(name, arguments, said):
    with pytest.raises(InvalidArgument) as caught:
        request(operations()[name], arguments)
    assert said in str(caught.value)
