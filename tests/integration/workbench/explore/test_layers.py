"""The question of the Layers view: every number is that of `client.read_layers`."""

import bertscope
import pytest
from bertscope_workbench.explore.questions.layers import POSITIONS, TOP

TEXT = "Paris is the capital of [MASK]."
LONG = "the capital of Paris is " * 12


def same(lens, expected):
    """Compares all that the page gets with the client's reading."""
    assert (lens["layers"], lens["normalisation"]) == (list(expected.layers), expected.normalisation)
    assert (lens["tokens"], lens["truncated_tokens"]) == (expected.tokens, expected.truncated_tokens)
    for sent, position in zip(lens["positions"], expected.positions, strict=True):
        assert (sent["token"], sent["index"], sent["mask"]) == (position.token.text, position.token_index, position.mask)
        for one, reading in zip(sent["layers"], position.layers, strict=True):
            assert [word for word, _ in one["top"]] == [entry.token for entry in reading.top]
            numbers = [probability for _, probability in one["top"]] + [one["entropy"], one["divergence"]]
            told = [entry.probability for entry in reading.top] + [reading.entropy, reading.divergence]
            assert numbers == pytest.approx(told, rel=1e-4, abs=1e-6)
            followed = [(one["answer"]["rank"], one["answer"]["probability"])] if "answer" in one else []
            assert followed == [(entry.rank, pytest.approx(entry.probability, rel=1e-4)) for entry in reading.candidates]


@pytest.mark.parametrize(("normalisation", "answer"), [("none", "paris"), ("final", "")])
def test_a_text_is_read_whole(page, client, normalisation, answer):
    (event,) = page.ask("lens", {"text": TEXT, "normalisation": normalisation, "answer": answer})
    (expected,) = client.read_layers(
        TEXT, all_pieces=True, top_k=TOP, normalisation=normalisation, candidates=[answer] if answer else None
    )
    assert event["lens"]["parts"] == []
    same(event["lens"], expected)


def test_a_long_text_is_read_in_windows(page, client):
    tokens = client.inspect(LONG, truncate=True).start.tokens
    words = [number for number, token in enumerate(tokens) if not token.special]
    read = []
    while len(read) < len(words):
        (event,) = page.ask("lens", {"text": LONG, "first": len(read) + 1})
        lens = event["lens"]
        (expected,) = client.read_layers(bertscope.LensInput(LONG, [tuple(part) for part in lens["parts"]]), truncate=True)
        same(lens, expected)
        assert 0 < len(lens["positions"]) <= POSITIONS
        read += [position["index"] for position in lens["positions"]]
    assert read == words
    (event,) = page.ask("lens", {"text": LONG, "first": 10**6})
    assert event["lens"]["positions"][0]["index"] == words[0]
