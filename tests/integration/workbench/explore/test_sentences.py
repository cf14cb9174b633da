"""The question of the Sentences view: its means are those of one description of all texts."""

import bertscope
import numpy as np
import pytest

TEXTS = ["The cat sat on the mat.", "A dog, of a man.", "Paris is the capital of [MASK].", "the of in on"]


@pytest.mark.slow
@pytest.mark.parametrize("statistic", ["first_special", "entropy", "distance"])
def test_the_means_are_the_clients(page, host, statistic):
    events = page.ask("sentences", {"texts": TEXTS, "statistic": statistic})
    assert sorted(event["text"] for event in events) == [0, 1, 2, 3]
    with bertscope.Client(host.target) as client:
        expected = client.describe_attention(TEXTS)
        filled = client.fill_mask(TEXTS[2], top_k=3)[0].masks[0].predictions
    assert np.mean([event["values"] for event in events], axis=0) == pytest.approx(expected.mean(statistic), abs=1e-5)
    for pattern in expected.patterns:
        shares = np.mean([np.array(event["patterns"]) == pattern for event in events], axis=0)
        assert shares == pytest.approx(expected.pattern_share(pattern))
    answers = {event["text"]: event["answers"] for event in events}
    assert [[word, pytest.approx(share)] for word, share in answers[2]] == [[one.token, one.probability] for one in filled]
    assert answers[0] == []


def test_what_heads_do_is_what_the_client_says(page, host):
    (event,) = page.ask("describe", {"texts": TEXTS})
    with bertscope.Client(host.target) as client:
        expected = client.describe_attention(TEXTS)
    assert event["patterns"] == expected.majority().tolist()
    assert [*event["statistics"]] == [*expected.statistics]
    for name, means in event["statistics"].items():
        assert np.array(means) == pytest.approx(expected.mean(name), abs=1e-4)
    assert page.refusal("describe", {"texts": []})["fields"] == ["texts"]


def test_a_text_that_is_too_long_is_left_out(page):
    events = page.ask("sentences", {"texts": [TEXTS[0], "the " * 5000], "statistic": "self"})
    left = {event["text"]: event.get("left_out") for event in events}
    assert left[0] is None
    assert "token" in left[1]


def test_a_model_without_a_masked_lm_head(page):
    (event,) = page.ask("sentences", {"texts": [TEXTS[2]], "model": "headless"})
    assert (event["answers"], len(event["values"])) == ([], len(event["patterns"]))
