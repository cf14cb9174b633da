"""The question of the switch "words": its numbers are the client's, quick ones first, and going away ends its calls."""

import bertscope
import pytest
from bertscope_workbench.plots.words_html import signed, sum_line

TEXT = "Paris is the capital of [MASK]."
TWO = "The [MASK] of Paris is [MASK]."
LONG = "The cat sat on the mat and the dog of the man sat in the [MASK]."


def same(event, expected):
    words = event["words"]
    assert (words["method"], words["absent"], words["pairs"]) == (expected.method, expected.absent, expected.pairs)
    assert words["places"] == [[unit.start, unit.end] for unit in expected.units]
    assert words["values"] == pytest.approx(expected.values.tolist(), abs=1e-6)
    assert words["numbers"] == [signed(expected, value) for value in expected.values]
    assert words["sum"].partition(" (")[0] == sum_line(expected).partition(" (")[0]
    ends = expected.interval()
    assert (words["intervals"] is None) == (ends is None)
    for sent, end in zip(words["intervals"] or [], ends or [], strict=True):
        assert sent == [signed(expected, each) for each in end]


def test_occlusion_comes_first_and_exact_values_then(page, client):
    first, last = page.ask("attribute", {"text": TEXT, "answer": "the"})
    target = bertscope.Answer("the")
    same(first, client.attribute_words(TEXT, target, method="occlusion")[0])
    same(last, client.attribute_words(TEXT, target)[0])
    assert first["words"]["places"] == last["words"]["places"]


def test_another_answer_another_mask_and_changed_heads(page, client):
    body = {"text": TWO, "answer": "the", "other": "of", "mask": 1, "changes": [{"layer": 1, "heads": [0], "mode": "mean"}]}
    *_, last = page.ask("attribute", body | {"reference_texts": ["a cat"]})
    target, change = bertscope.Answer("the", "of", mask=1), bertscope.mean(1, [0])
    asked = {"interventions": [change], "reference_texts": ["a cat"]}
    same(last, client.attribute_words(TWO, target, **asked)[0])
    assert last["words"]["values"] != pytest.approx(client.attribute_words(TWO, target)[0].values.tolist(), abs=1e-6)


def test_a_longer_text_is_sampled_more_and_more(page, client):
    first, *sampled = page.ask("attribute", {"text": LONG, "answer": "the"})
    assert first["words"]["method"] == "occlusion"
    pairs = [event["words"]["pairs"] for event in sampled]
    assert pairs[0] == 5
    assert pairs == sorted(set(pairs))
    assert pairs[-1] >= 10
    assert sampled[0]["words"]["intervals"] is not None
    for event in (sampled[0], sampled[-1]):
        same(event, client.attribute_words(LONG, bertscope.Answer("the"), pairs=event["words"]["pairs"])[0])
    sums = {round(sum(event["words"]["values"]), 4) for event in sampled}
    assert len(sums) == 1
