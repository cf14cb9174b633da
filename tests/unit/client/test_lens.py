"""Readings of every layer: the request, the reply, its table, its output, its figure, and replies that break the contract."""

import dataclasses
import io
import math
import re

import bertscope
import pytest
from bertscope.questions.representations.lens import asked_readings, read_layers_request, read_lens_texts
from bertscope.v1 import common_pb2
from bertscope.v1 import representation_lens_pb2 as lens
from bertscope_workbench.command.views.lens import document, print_lens
from matplotlib.colors import to_hex
from rich.console import Console

LAYERS = (0, 2)
INPUT = lens.LensInput(text="The $cat sat on [MASK].", text_pair="It purred.")


def layer(number, own, chosen):
    top = [
        lens.LensPrediction(entry=lens.VocabularyEntry(token=f"word{number}{place}", id=10 + place), log_probability=log)
        for place, log in enumerate((-0.25 - number, -2.0))
    ]
    score = lens.LensScore(log_probability=-1.5, rank=4)
    return lens.LensLayer(
        top=top, entropy=2.0, divergence=0.5 * number, own=score if own else None, candidates=[score] * chosen
    )


def reply(positions=2, chosen=1):
    response = lens.ReadLayersResponse(layers=LAYERS, normalisation=lens.LENS_NORMALISATION_FINAL)
    response.provenance.model = "models/m"
    text = response.results.add(tokens=9, truncated_tokens=3)
    for place in range(positions):
        token = common_pb2.Token(text=f"$piece{place}", id=7, start=4 * place, end=4 * place + 3, word=place)
        entries = [lens.VocabularyEntry(token="dog", id=3)] * chosen
        text.positions.add(
            token_index=place + 1,
            token=token,
            mask=place == 1,
            candidates=entries,
            layers=[layer(number, place != 1, chosen) for number in range(len(LAYERS))],
        )
    return response


def test_a_reply_becomes_a_result_and_a_table():
    found = read_lens_texts([INPUT], reply())
    (text,) = found
    assert (text.text, text.layers, text.normalisation, text.tokens, text.truncated_tokens) == (
        ("The $cat sat on [MASK].", "It purred."),
        LAYERS,
        "final",
        9,
        3,
    )
    first, mask = text.positions
    assert (first.token.text, first.mask, mask.mask, mask.token_index) == ("$piece0", False, True, 2)
    assert [reading.layer for reading in mask.layers] == [0, 2]
    assert mask.entropies().tolist() == [2.0, 2.0]
    assert mask.divergences().tolist() == [0.0, 0.5]
    assert mask.layers[0].own is None
    own = first.layers[1].own
    assert own == bertscope.EntryScore("$piece0", 7, -1.5, 4)
    assert own.probability == pytest.approx(math.exp(-1.5))
    assert [entry.rank for entry in mask.layers[1].top] == [1, 2]
    table = found.to_pandas()
    assert table["layer"].tolist() == [0, 2, 0, 2]
    assert table["prediction"].tolist() == ["word00", "word10"] * 2
    assert table["rank of dog"].tolist() == [4] * 4
    assert table["own_rank"].fillna(0).tolist() == [4, 4, 0, 0]
    assert table["own_probability"].isna().tolist() == [False, False, True, True]
    assert len(repr(found)) < 400


@pytest.mark.parametrize(
    "change",
    [
        lambda message: message.results.add(),
        lambda message: message.layers.append(5),
        lambda message: message.results[0].positions[1].layers[0].candidates.pop(),
        lambda message: message.results[0].positions[0].layers[1].ClearField("top"),
    ],
)
def test_a_reply_that_breaks_the_contract_is_invalid(change):
    message = reply()
    change(message)
    with pytest.raises(bertscope.InvalidReply):
        read_lens_texts([INPUT], message)


def test_requests_name_what_cannot_be_sent():
    part = bertscope.LensInput(("a b", "c d"), [(0, 1, 1)])
    asked = asked_readings(["x [MASK]", ("a", "b"), part])
    messages = list(asked.items)
    assert asked.total == 3
    assert [message.HasField("text_pair") for message in messages] == [False, True, True]
    assert [(span.start, span.end, span.segment) for span in messages[2].spans] == [(0, 1, 1)]
    assert [message.text_pair for message in asked_readings(("a", "b")).items] == ["b"]
    request = {"model": "m", "layers": 0, "top_k": None, "candidates": "dog", "all_pieces": True, "normalisation": "none"}
    rest = {"interventions": (), "reference_texts": (), "truncate": False}
    built = read_layers_request(**request, **rest)
    assert (list(built.layers), list(built.candidates), built.normalisation) == ([0], ["dog"], lens.LENS_NORMALISATION_NONE)
    for field, value in (("candidates", []), ("normalisation", "first"), ("all_pieces", 1), ("top_k", -1)):
        with pytest.raises(bertscope.InvalidArgument, match=field):
            read_layers_request(**request | {field: value}, **rest)
    with pytest.raises(bertscope.InvalidArgument, match="parts"):
        bertscope.LensInput("a", [])
    with pytest.raises(bertscope.InvalidArgument, match=r"inputs\[1\]"):
        asked_readings(["a", 3])


@pytest.mark.parametrize(("positions", "chosen"), [(1, 1), (2, 0), (2, 1), (60, 0)])
def test_the_output_shows_words_or_layers(positions, chosen):
    (text,) = found = read_lens_texts([INPUT], reply(positions, chosen))
    screen = Console(file=io.StringIO(), width=120)
    print_lens(screen, text)
    out = screen.file.getvalue()
    assert "word00" in out
    assert "3 tokens were cut away" in out
    assert ("dog" in out) == bool(chosen)
    assert ("entropy" in out) == (positions == 1 or positions > 10 or bool(chosen))
    assert document(found)["results"][0]["positions"][0]["layers"][1]["top"][0]["token"] == "word10"


@pytest.mark.parametrize("dark", [False, True])
def test_the_figure_has_a_word_in_each_cell(dark, tmp_path):
    (text,) = read_lens_texts([INPUT], reply())
    figure = bertscope.plot_lens(text, dark=dark)
    axes = figure.axes[0]
    assert [label.get_text() for label in axes.texts] == ["word00", "word00", "word10", "word10"]
    assert axes.images[0].get_array()[:, 0].tolist() == pytest.approx([math.exp(-0.25), math.exp(-1.25)])
    assert [label.get_text() for label in axes.get_xticklabels()] == [r"\$piece0", r"\$piece1"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["0", "2"]
    assert to_hex(figure.get_facecolor()) == ("#11181f" if dark else "#ffffff")
    with pytest.raises(bertscope.InvalidArgument, match="no position"):
        bertscope.plot_lens(read_lens_texts([INPUT], reply(positions=0))[0])
    (many,) = read_lens_texts([INPUT], reply(positions=64))
    assert "4 more positions are not shown" in bertscope.plot_lens(many).get_suptitle()
    with pytest.raises(ValueError, match="must end with"):
        bertscope.save_lens(text, tmp_path / "lens.gif")


def test_readings_are_a_heat_map_in_a_notebook(monkeypatch):
    (found,) = read_lens_texts([INPUT], reply())
    shown = found._repr_html_()
    words = re.findall(r'<td title="([^"]*)" style="[^"]*rgba\(66,146,198,([0-9.]+)\)">(\w+)</td>', shown)
    assert [word for _, _, word in words] == ["word10", "word10", "word00", "word00"]  # the last layer on top
    assert float(words[2][1]) == pytest.approx(0.75 * math.exp(-0.25), abs=1e-3)
    assert words[0][0] == "$piece0, layer 2: word10 0.287, word11 0.135"
    assert "tex2jax_ignore" in shown and "models/m" in shown  # dollar signs would begin a formula
    nasty = dataclasses.replace(found, text="<script>")
    texts = bertscope.LensTexts([nasty] * 12)
    assert "<script" not in texts._repr_html_() and texts._repr_html_().count("<table") == 10
    assert "2 more texts are not shown" in texts._repr_html_()
    monkeypatch.setattr("bertscope.questions.representations.lens_view.MAX_POSITIONS", 1)
    assert "1 more positions are not shown" in found._repr_html_()
