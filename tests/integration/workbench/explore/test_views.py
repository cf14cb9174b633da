"""The questions of the views Explore, Compare, Layers and Trace give what the client gives."""

import base64
import json

import bertscope
import numpy as np
import pytest
from bertscope_workbench.explore.plain import plain
from bertscope_workbench.explore.questions.layers import POSITIONS, TOP
from bertscope_workbench.plots.words_html import signed, sum_line

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


TWO = "The [MASK] of Paris is [MASK]."
LONG_SENTENCE = "The cat sat on the mat and the dog of the man sat in the [MASK]."


def same_words(event, expected):
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
    same_words(first, client.attribute_words(TEXT, target, method="occlusion")[0])
    same_words(last, client.attribute_words(TEXT, target)[0])
    assert first["words"]["places"] == last["words"]["places"]


def test_another_answer_another_mask_and_changed_heads(page, client):
    body = {"text": TWO, "answer": "the", "other": "of", "mask": 1, "changes": [{"layer": 1, "heads": [0], "mode": "mean"}]}
    *_, last = page.ask("attribute", body | {"reference_texts": ["a cat"]})
    target, change = bertscope.Answer("the", "of", mask=1), bertscope.mean(1, [0])
    asked = {"interventions": [change], "reference_texts": ["a cat"]}
    same_words(last, client.attribute_words(TWO, target, **asked)[0])
    assert last["words"]["values"] != pytest.approx(client.attribute_words(TWO, target)[0].values.tolist(), abs=1e-6)


def test_a_longer_text_is_sampled_more_and_more(page, client):
    first, *sampled = page.ask("attribute", {"text": LONG_SENTENCE, "answer": "the"})
    assert first["words"]["method"] == "occlusion"
    pairs = [event["words"]["pairs"] for event in sampled]
    assert pairs[0] == 5
    assert pairs == sorted(set(pairs))
    assert pairs[-1] >= 10
    assert sampled[0]["words"]["intervals"] is not None
    for event in (sampled[0], sampled[-1]):
        same_words(event, client.attribute_words(LONG_SENTENCE, bertscope.Answer("the"), pairs=event["words"]["pairs"])[0])
    sums = {round(sum(event["words"]["values"]), 4) for event in sampled}
    assert len(sums) == 1


SILENCED = [{"layer": 0, "heads": [0, 1], "mode": "zero"}]


def test_a_model_and_itself_changed(page, client):
    body = {"text": TEXT, "changes": SILENCED, "detail": [{"layer": 1, "head": 0}], "top_k": 4}
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


LONG = "the capital of Paris is " * 12


def same_lens(lens, expected):
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
    same_lens(event["lens"], expected)


def test_a_long_text_is_read_in_windows(page, client):
    tokens = client.inspect(LONG, truncate=True).start.tokens
    words = [number for number, token in enumerate(tokens) if not token.special]
    read = []
    while len(read) < len(words):
        (event,) = page.ask("lens", {"text": LONG, "first": len(read) + 1})
        lens = event["lens"]
        (expected,) = client.read_layers(bertscope.LensInput(LONG, [tuple(part) for part in lens["parts"]]), truncate=True)
        same_lens(lens, expected)
        assert 0 < len(lens["positions"]) <= POSITIONS
        read += [position["index"] for position in lens["positions"]]
    assert read == words
    (event,) = page.ask("lens", {"text": LONG, "first": 10**6})
    assert event["lens"]["positions"][0]["index"] == words[0]


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
