"""The questions of the Trace view give what the client gives."""

import bertscope
import numpy as np
import pytest

CLEAN, CORRUPTED = "The man was [MASK].", "The dog was [MASK]."
BODY = {"text": CLEAN, "other": CORRUPTED, "answer": "old", "against": "young"}


@pytest.mark.parametrize("more", [{}, {"site": "heads", "direction": "break"}])
def test_effects_come_layer_by_layer(page, host, more):
    start, *parts = page.ask("trace", BODY | more)
    with bertscope.Client(host.target) as client:
        asked = {"sites": more.get("site"), "direction": more.get("direction")}
        trace = client.trace(CLEAN, CORRUPTED, bertscope.Answer("old", "young"), **asked)
    told = start["start"]
    assert (told["tokens"], told["total"]) == (list(trace.names), len(trace.effects))
    assert [index for index, differs in enumerate(told["differ"]) if differs] == [2]
    assert (told["clean"], told["corrupted"]) == pytest.approx(trace.baseline, abs=1e-4)
    assert [{effect[0] for effect in part["effects"]} for part in parts] == [{layer} for layer in trace.layers]
    found = np.full(trace.difference.shape, np.nan)
    for part in parts:
        for layer, position, _, difference in part["effects"]:
            found[layer, position] = difference
    np.testing.assert_allclose(found, trace.difference, atol=1e-3)


def test_a_patched_place(page, host):
    ((answer,),) = [page.ask("patched", {"text": CORRUPTED, "source": CLEAN, "layer": 0, "position": 2})]
    with bertscope.Client(host.target) as client:
        whole, before = client.fill_mask([CLEAN, CORRUPTED], top_k=5)
        (untouched,) = client.fill_mask(CORRUPTED, candidates=[each.token for each in whole.masks[0].predictions])
    known = {each.token: each.probability for each in untouched.masks[0].predictions}
    wanted = [[each.token, each.probability, known[each.token]] for each in whole.masks[0].predictions]
    assert [word for word, *_ in answer["patched"]] == [word for word, *_ in wanted]
    np.testing.assert_allclose([row[1:] for row in answer["patched"]], [row[1:] for row in wanted], atol=1e-4)
    assert before.masks
