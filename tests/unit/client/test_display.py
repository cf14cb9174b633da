"""Results are a short line at a prompt, and a table or a picture in a notebook."""

import dataclasses
import re
import sys
from types import SimpleNamespace

import bertscope
import bertscope_workbench as workbench
import numpy as np
import pytest
from IPython.core.formatters import DisplayFormatter

PROVENANCE = bertscope.Provenance(
    "models/m", "sha256:" + "0" * 64, "torch", "cpu", "fp32", {"torch": "2", "numpy": "2"}, "zero_based"
)
WORD = bertscope.Prediction("france", ("france",), (7,), 0.5, -0.69, None, 1)
FILLED = bertscope.FilledText("x" * 5000, (bertscope.FilledMask((WORD,) * 50, 0, 6, 1),) * 30, 7, 0, PROVENANCE)
CLASSIFIED = bertscope.ClassifiedText("x" * 900, None, (bertscope.LabelPrediction("good", 0, 0.5, 1.0),) * 40, 7, 0, PROVENANCE)


def maps(length: int) -> bertscope.AttentionMaps:
    tokens = tuple(bertscope.Token(f"w{index}", index, 0, 1, False, index, 0, ()) for index in range(length))
    attention = np.full((6, 12, length, length), 1 / length, np.float32)
    return bertscope.AttentionMaps(0, "text " * 99, None, tokens, attention, tuple(range(6)), tuple(range(12)), 0, PROVENANCE)


def assert_readable(shown: str) -> None:
    lines = shown.splitlines()
    assert len(lines) <= 15, shown
    assert max(map(len, lines)) <= 120, shown


def test_a_table_shows_its_best_rows_and_how_many_more_there_are(monkeypatch):
    importance = np.linspace(0, 1, 144).reshape(12, 12)
    ranking = bertscope.HeadRanking(importance, importance, 30, 0, 2.5, PROVENANCE)
    for shown in (repr(ranking), ranking._repr_html_()):
        assert "134 more rows" in shown
        assert "largest importance" in shown
    assert re.search(r"11 +11 +1 +", repr(ranking))
    assert_readable(repr(ranking))
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert "importance=float64[12, 12] [0, 0.006993" in repr(ranking)


def test_a_client_shows_its_server():
    with bertscope.Client("127.0.0.1:9") as client:
        assert repr(client) == "<Client of 127.0.0.1:9>"


def test_lists_are_tables_in_a_notebook(monkeypatch):
    assert "<table" in bertscope.ClassifiedTexts([CLASSIFIED])._repr_html_()
    assert "<table" in bertscope.Models()._repr_html_()
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert bertscope.ClassifiedTexts([CLASSIFIED])._repr_html_() is None


def test_maps_are_a_page_in_a_notebook_unless_they_are_large():
    shell = SimpleNamespace(display_formatter=DisplayFormatter())
    workbench.load_ipython_extension(shell)
    small, large = (shell.display_formatter.format(maps(size))[0] for size in (4, 128))
    assert small["text/html"].startswith("<iframe srcdoc=")
    assert [*large] == ["text/plain"]


def test_maps_without_special_tokens():
    whole = maps(4)
    tokens = tuple(dataclasses.replace(token, special=index in (0, 3)) for index, token in enumerate(whole.tokens))
    marked = dataclasses.replace(whole, tokens=tokens, attention=np.arange(6 * 12 * 16, dtype=np.float32).reshape(6, 12, 4, 4))
    found = marked.without_special_tokens()
    assert [token.text for token in found.tokens] == ["w1", "w2"]
    np.testing.assert_array_equal(found.head(5, 11), marked.head(5, 11)[1:3, 1:3])
    with pytest.raises(ValueError, match="all tokens of the text are special"):
        dataclasses.replace(marked, tokens=tokens[:1], attention=marked.attention[:, :, :1, :1]).without_special_tokens()


def test_lists_and_tables_say_how_much_more_there_is(stored) -> None:
    shapes = (1, 1), (1, 11)
    rankings = [bertscope.HeadRanking(np.ones(shape), np.ones(shape), shape[1], 0, 2.5, PROVENANCE) for shape in shapes]
    stored(texts=repr(bertscope.FilledTexts([FILLED] * 300)), maps=repr(maps(20)), rankings="\n".join(map(repr, rankings)))
