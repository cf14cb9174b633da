"""The questions of the Explore view: their numbers are the client's."""

import base64
import json

import bertscope
import numpy as np
import pytest
from bertscope_workbench.explore.plain import plain

TEXT = "Paris is the capital of [MASK]."
CHANGES = [{"layer": 1, "heads": [0, 1], "mode": "zero"}, {"layer": 0, "heads": [2], "mode": "scale", "factor": 0.5}]
INTERVENTIONS = [bertscope.zero(1, [0, 1]), bertscope.scale(0, [2], factor=0.5)]


def cells(sent):
    found = np.frombuffer(base64.b64decode(sent["data"]), {"uint8": np.uint8, "float32": "<f4"}[sent["type"]])
    return found.reshape(sent["maps"], sent["rows"], sent["columns"])


@pytest.mark.parametrize("words", [False, True])
def test_an_inspection_is_the_clients(page, client, words):
    body = {
        "text": TEXT,
        "changes": CHANGES,
        "detail": [{"layer": 1, "head": 3}],
        "follow": ["the"],
        "top_k": 3,
        "words": words,
    }
    start, moved, pictures, detail = page.ask("inspect", body)
    views = [bertscope.MapView(pixels=48, format="uint8"), bertscope.MapView({1: [3]}, format="float32")]
    expected = client.inspect(
        TEXT, top_k=3, candidates=["the"], interventions=INTERVENTIONS, compare_untouched=True, maps=views, words=words
    )
    start = start["start"]
    assert [token["text"] for token in start["tokens"]] == [unit.text for unit in expected.words or expected.tokens]
    (mask,) = start["masks"]
    table = expected.to_pandas()
    assert [entry["token"] for entry in mask["entries"]] == table["token"].tolist()
    assert [entry["before"] for entry in mask["entries"]] == plain(table["untouched_probability"].tolist())
    assert moved["moved"] == plain(expected.distances.moved)
    assert np.array_equal(cells(pictures["pictures"]), expected.maps[0].cells)
    assert np.array_equal(cells(detail["detail"])[0], expected.maps[1].cells[0])
    assert detail["detail"]["first"] == [1, 3]


def test_the_worth_of_each_head(page, client):
    texts = [TEXT, "The [MASK] sat on the mat."]
    events = page.ask("worth", {"texts": texts, "changes": CHANGES, "mode": "uniform"})
    with client.sweep_heads(bertscope.Divergence(texts), mode="uniform", interventions=INTERVENTIONS) as sweep:
        expected = {(effect.layer, effect.head): effect.metrics["divergence"].difference for effect in sweep}
    found = {(event["effect"]["layer"], event["effect"]["head"]): event["effect"]["difference"] for event in events}
    assert found == pytest.approx(expected)
    assert json.dumps(events)
