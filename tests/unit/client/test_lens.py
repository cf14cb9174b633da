"""Readings of every layer: the request, the reply, its table, its output, its figure, and replies that break the contract."""

import dataclasses
import math
import re

import bertscope
import bertscope_workbench as workbench
import pytest
from bertscope.questions.representations.lens import asked_readings, read_lens_texts
from bertscope.v1 import common_pb2
from bertscope.v1 import representation_lens_pb2 as lens
from bertscope_workbench.command.options.texts import answers_document as document
from bertscope_workbench.command.views.lens import print_lens
from bertscope_workbench.plots.lens_html import lens_html

from tests.support.broken_replies import refusals
from tests.support.stored_outputs import Name, printed

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


def test_readings_are_a_heat_map_in_a_notebook(monkeypatch):
    (found,) = read_lens_texts([INPUT], reply())
    shown = lens_html([found])
    words = re.findall(r'<td title="([^"]*)" style="[^"]*rgba\(66,146,198,([0-9.]+)\)">(\w+)</td>', shown)
    assert [word for _, _, word in words] == ["word10", "word10", "word00", "word00"]  # the last layer on top
    assert float(words[2][1]) == pytest.approx(0.75 * math.exp(-0.25), abs=1e-3)
    assert words[0][0] == "$piece0, layer 2: word10 0.287, word11 0.135"
    assert "tex2jax_ignore" in shown and "models/m" in shown  # dollar signs would begin a formula
    nasty = dataclasses.replace(found, text="<script>")
    texts = bertscope.LensTexts([nasty] * 12)
    assert "<script" not in lens_html(texts) and lens_html(texts).count("<table") == 10
    assert "2 more texts are not shown" in lens_html(texts)
    monkeypatch.setattr("bertscope_workbench.plots.lens_html.MAX_POSITIONS", 1)
    assert "1 more positions are not shown" in lens_html([found])


def test_readings(stored) -> None:
    (text,) = found = read_lens_texts([INPUT], reply())
    first, mask = text.positions
    stored(
        readings=text,
        computed=[mask.entropies(), mask.divergences(), first.layers[1].own.probability],
        shown=repr(found),
        frame=found.to_pandas(),
        document=document(found),
        printed=[
            Name(printed(print_lens, *read_lens_texts([INPUT], reply(*size)), width=120)) for size in ((1, 1), (2, 0), (2, 1))
        ],
        figure=workbench.plot_lens(text),
        dark=workbench.plot_lens(text, dark=True),
        nothing_to_draw=lambda: workbench.plot_lens(read_lens_texts([INPUT], reply(positions=0))[0]),
        broken=refusals(lambda messages: read_lens_texts([INPUT], *messages), reply()),
    )


def test_requests_name_what_cannot_be_sent(stored) -> None:
    part = bertscope.LensInput(("a b", "c d"), [(0, 1, 1)])
    asked = asked_readings(["x [MASK]", ("a", "b"), part])
    stored(
        inputs=[asked.total, *asked.items],
        pair=list(asked_readings(("a", "b")).items),
        refused=[lambda: bertscope.LensInput("a", []), lambda: asked_readings(["a", 3])],
    )
