"""The question of the Compare view: both sides are the client's own answers."""

import bertscope
import pytest
from bertscope_workbench.explore.plain import plain

TEXT = "Paris is the capital of [MASK]."
CHANGES = [{"layer": 0, "heads": [0, 1], "mode": "zero"}]


def test_a_model_and_itself_changed(page, client):
    body = {"text": TEXT, "changes": CHANGES, "detail": [{"layer": 1, "head": 0}], "top_k": 4}
    sides, distances = page.ask("compare", body)
    interventions = [bertscope.zero(0, [0, 1])]
    expected = client.inspect(TEXT, top_k=4, interventions=interventions, compare_untouched=True)
    found = {
        name: {each["key"]: each["probability"] for each in sides[name]["start"]["masks"][0]["entries"]}
        for name in ("left", "right")
    }
    changed = {" ".join(entry.pieces): entry.probability for entry in expected.masks[0].predictions}
    untouched = {" ".join(entry.pieces): entry.probability for entry in expected.untouched_masks[0].predictions}
    assert found["right"] == pytest.approx(changed, rel=1e-4)
    assert found["left"] == pytest.approx(untouched, rel=1e-4)
    assert [*found["left"]] == [*found["right"]]
    compared = client.compare_attention(TEXT, interventions=interventions)
    assert distances["distances"]["divergence"] == plain(compared.divergence.mean())
    assert sides["left"]["detail"]["data"] != sides["right"]["detail"]["data"]


def test_two_models_with_other_vocabularies(page):
    sides, apart = page.ask("compare", {"text": TEXT, "model": "bert", "other": "roberta"})
    assert sides["left"]["start"]["tokens"] != sides["right"]["start"]["tokens"]
    assert "vocabular" in apart["incomparable"]["message"]
