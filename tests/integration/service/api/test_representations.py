"""Questions about representations through gRPC: replies of several calls add up, those about the last layer agree with
FillMask, and those of two models with each other."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from bertscope.v1 import common_pb2
from bertscope.v1 import representation_lens_pb2 as lens
from numpy.typing import NDArray

from tests.support.calls import call
from tests.support.harness import Host
from tests.support.sweeps import matrix
from tests.support.tiny import SENTENCES

COMPARED = [*SENTENCES[:5], "The cat.", "A cat sat on the other cat."]
CLOSED = [common_pb2.HeadIntervention(layer=2, mode=common_pb2.HeadIntervention.MODE_ZERO)]


def compare(host: Host, texts: Sequence[str] = COMPARED, **fields: Any) -> Any:
    return call(host, "CompareRepresentations", inputs=[{"text": text} for text in texts], truncate=True, **fields)


def sums(reply: Any) -> NDArray[np.float64]:
    return np.array([*reply.shared, *reply.own, *reply.other])


def cka(reply: Any) -> NDArray[np.float64]:
    found: NDArray[np.float64] = np.reshape(reply.shared, (len(reply.layers), -1)) / np.sqrt(np.outer(reply.own, reply.other))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("fields", [{}, {"other_model": "models/roberta"}, {"interventions": CLOSED}])
def test_replies_of_several_calls_add_up(host: Host, fields: dict[str, Any]) -> None:
    whole, parts = compare(host, **fields), [compare(host, COMPARED[begin : begin + 3], **fields) for begin in (0, 3, 6)]
    for name in ("texts", "compared_texts", "compared_words", "tokens", "truncated_texts"):
        assert getattr(whole, name) == sum(getattr(part, name) for part in parts)
    assert (whole.texts, whole.compared_texts) == (7, 6)
    added = np.sum([sums(part) for part in parts], axis=0)
    np.testing.assert_allclose(sums(whole), added, rtol=1e-4, atol=1e-5 * float(np.abs(added).max()))
    assert whole.other_provenance.model == fields.get("other_model", "models/bert")


def test_a_layer_is_like_itself_and_its_twin(host: Host) -> None:
    np.testing.assert_allclose(np.diag(cka(compare(host))), 1, rtol=1e-12)
    closed = cka(compare(host, interventions=CLOSED))
    np.testing.assert_allclose(np.diag(closed)[:3], 1, atol=1e-4)
    assert (np.diag(closed)[3:] < 0.9999).all()
    forth, back = compare(host, other_model="models/roberta"), compare(host, model="models/roberta", other_model="models/bert")
    assert forth.compared_words == back.compared_words
    np.testing.assert_allclose(cka(forth), cka(back).T, atol=1e-4)


def test_layers_are_those_that_were_asked_for(host: Host) -> None:
    every = cka(compare(host))
    some = compare(host, layers=[3, 1])
    assert (list(some.layers), list(some.other_layers)) == ([3, 1], [3, 1])
    np.testing.assert_allclose(cka(some), every[[3, 1]][:, [3, 1]], atol=1e-5)
    other = compare(host, layers=[3, 1], other_layers=[4])
    np.testing.assert_allclose(cka(other), every[[3, 1]][:, [4]], atol=1e-5)
    assert list(compare(host, layers=[2], other_model="models/roberta").other_layers) == [0, 1, 2, 3, 4]


DESCRIBED = [*SENTENCES[:4], "The cat.", "A CAT sat on the cat."]
SUMMED = (
    "directions",
    "direction_squares",
    "components",
    "norms",
    "norm_squares",
    "similarities_to_mean",
    "similarity_squares",
)
SUMMED += ("text_direction_squares", "pair_similarities")


def describe(host: Host, texts: Sequence[str] = DESCRIBED) -> Any:
    asked = {"inputs": [{"text": text} for text in texts], "truncate": True, "words": ["cat"], "second_moments": True}
    return call(host, "DescribeGeometry", **asked)


def numbers(reply: Any) -> list[np.ndarray]:
    """All sums of a reply, one array after the other."""
    found = [np.array(getattr(layer, name), np.float64) for layer in reply.layers for name in SUMMED]
    found += [np.frombuffer(layer.second_moments.data, "<f4").astype(np.float64) for layer in reply.layers]
    return [*found, *(np.array(word.directions) for word in reply.words)]


def assert_alike(found: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> None:
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4 * float(np.abs(other).max(initial=1)))


def test_descriptions_of_several_calls_add_up(host: Host) -> None:
    whole, parts = describe(host), [describe(host, DESCRIBED[begin : begin + 3]) for begin in (0, 3)]
    for name in ("texts", "compared_texts", "tokens", "vectors", "squared_vectors", "truncated_texts"):
        assert getattr(whole, name) == sum(getattr(part, name) for part in parts)
    assert [layer.layer for layer in whole.layers] == [0, 1, 2, 3, 4]
    sums = [[layer.second_moments for layer in part.layers] for part in parts]
    assert all(len(moments.data) == 4 * moments.shape[0] for part in sums for moments in part)
    split = [numbers(part) for part in parts]
    words = [len(part.words) for part in parts]
    assert whole.words[0].vectors == sum(word.vectors for part in parts for word in part.words)
    layers = len(SUMMED) * 5 + 5
    assert_alike(
        numbers(whole)[:layers], [one + other for one, other in zip(split[0][:layers], split[1][:layers], strict=True)]
    )
    assert_alike(numbers(whole)[layers:], [np.sum([one[layers] for one, has in zip(split, words, strict=True) if has], axis=0)])


READ = "The [MASK] sat on the [MASK]."


@pytest.mark.parametrize("model", ["models/bert", "models/roberta"])
def test_the_last_layer_answers_what_fill_mask_does(host: Host, model: str) -> None:
    zero = {"layer": 1, "heads": [2], "mode": "MODE_ZERO"}
    for interventions in ([], [zero]):
        asked = {"model": model, "top_k": 3, "interventions": interventions}
        reply = call(host, "ReadLayers", inputs=[{"text": READ}], **asked)
        (filled,) = call(host, "FillMask", texts=[READ], **asked).results
        (text,) = reply.results
        assert (list(reply.layers), reply.normalisation) == ([0, 1, 2, 3, 4], lens.LENS_NORMALISATION_NONE)
        assert reply.provenance.model == model
        assert (text.tokens, text.truncated_tokens) == (filled.tokens, 0)
        for position, mask in zip(text.positions, filled.masks, strict=True):
            assert (position.token_index, position.token.start, position.token.end) == (mask.token_index, mask.start, mask.end)
            assert position.mask
            last = position.layers[-1]
            assert not last.HasField("own")
            assert last.divergence == 0
            assert [layer.divergence > 0 for layer in position.layers[:-1]] == [True] * 4
            found = [(one.entry.token, one.entry.id, one.log_probability) for one in last.top]
            assert found == [(one.token, one.piece_ids[0], one.log_probability) for one in mask.predictions]


def test_parts_of_pairs_and_candidates(host: Host) -> None:
    given = {"text": "A bird.", "text_pair": "The cat sat.", "spans": [{"start": 4, "end": 7, "segment": 1}]}
    asked = {"layers": [4, 2], "candidates": ["the", "cat"], "normalisation": lens.LENS_NORMALISATION_FINAL}
    (text,) = call(host, "ReadLayers", inputs=[given], **asked).results
    (position,) = text.positions
    assert (position.token.text, position.token.segment, position.mask) == ("cat", 1, False)
    assert [entry.token for entry in position.candidates] == ["the", "cat"]
    assert len(position.layers) == 2
    for layer in position.layers:
        assert (layer.own.log_probability, layer.own.rank) == (layer.candidates[1].log_probability, layer.candidates[1].rank)
        assert len(layer.top) == 5
    everything = call(host, "ReadLayers", inputs=[{"text": "The cat."}], all_pieces=True).results[0]
    assert [position.token.special for position in everything.positions] == [True, False, False, False, True]


ATTRIBUTED = ("The [MASK] sat on the mat.", "A [MASK] is in the house, and nobody waited for the dog.")
OWN: dict[str, Any] = {"layer": 3, "heads": [1], "mode": "MODE_SCALE", "scale": 2.0}


def attribute(host: Host, **fields: Any) -> Any:
    inputs = [{"text": text, "answer": "the", "other_answer": "cat"} for text in ATTRIBUTED]
    return call(host, "AttributeLogits", inputs=inputs, **fields)


def differences(host: Host, interventions: list[dict[str, Any]]) -> list[float]:
    """The same differences by FillMask."""
    reply = call(host, "FillMask", texts=ATTRIBUTED, candidates=["the", "cat"], logits=True, interventions=interventions)
    logits = [{one.token: one.logit for one in text.masks[0].predictions} for text in reply.results]
    return [one["the"] - one["cat"] for one in logits]


def total(found: Any) -> float:
    by_layer = [*found.feed_forward, *found.attention_biases, *found.normalisation_shifts]
    return float(matrix(found.heads).sum()) + sum(by_layer) + found.embeddings + found.head_biases


@pytest.mark.parametrize("interventions", [[], [OWN]])
def test_terms_and_ablations_are_those_of_fill_mask(host: Host, interventions: list[dict[str, Any]]) -> None:
    reply = attribute(host, interventions=interventions, ablate=True)
    whole = differences(host, interventions)
    for found, expected in zip(reply.results, whole, strict=True):
        assert found.difference == pytest.approx(expected, abs=1e-4)
        assert total(found) == pytest.approx(expected, abs=2e-4)
        assert (found.answer.token, found.other_answer.token) == ("the", "cat")
        assert list(found.heads.shape) == list(found.ablated.shape) == [4, 4]
        assert len(found.feed_forward) == len(found.attention_biases) == len(found.normalisation_shifts) == 4
    for layer, head in ((0, 0), (2, 3)):
        zeroed = {"layer": layer, "heads": [head], "mode": "MODE_ZERO"}
        without = differences(host, [*interventions, zeroed])
        for found, before, after in zip(reply.results, whole, without, strict=True):
            assert matrix(found.ablated)[layer, head] == pytest.approx(before - after, abs=1e-3)
    plain = attribute(host, interventions=interventions, ablate=False)
    assert not any(found.HasField("ablated") for found in plain.results)


@pytest.mark.slow
def test_a_reply_has_every_unit_once(host: Host) -> None:
    texts = [{"text": {"input": {"text": text}}, "id": number} for number, text in enumerate(SENTENCES)]
    vectors = {"dtype": "DATA_TYPE_FLOAT32", "shape": [1, 32], "data": b"\0\0\x80?" * 32}
    direction = {"site": "SITE_STATE", "vectors": vectors}
    asked = {"heads": {}, "activations": {}, "directions": [direction | {"layer": 4}, direction | {"cosine": True}]}
    found = call(host, "FindContexts", texts=texts, **asked)
    kinds = ["progress", "summary", "words", "units"]
    order = [kinds.index(one.WhichOneof("event")) for one in found]
    assert order == sorted(order)
    units = [one.units for one in found if one.HasField("units")]
    heads, directions = ([one for one in units if one.kind == getattr(one, f"KIND_{kind}")] for kind in ("HEAD", "DIRECTION"))
    layers = sorted({one.layer for one in heads})
    assert sorted((one.layer, unit) for one in heads for unit in one.units) == [
        (layer, head) for layer in layers for head in range(4)
    ]
    assert [one.layer for one in directions] == [0, 1]
