"""FillMask through gRPC gives what transformers gives, and joint fillings of masks the numbers of their definition."""

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from bertscope.v1 import cloze_pb2 as cloze
from bertscope.v1 import common_pb2
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from transformers import AutoModelForMaskedLM

from tests.support.calls import call
from tests.support.decoding import Definition
from tests.support.harness import Host
from tests.support.limits import limit_sizes
from tests.support.plain import Plain

TEXTS = (
    "Paris is the capital of [MASK].",
    "The [MASK] sat on the [MASK].",
    "[MASK] nurse told the doctor that her patient had been waiting since 7:45 a.m.",
    "The café in Zürich serves a [MASK] soufflé 😀.",
)
LONG = "The [MASK] sat." + " the" * 100


@pytest.fixture(scope="module")
def plain(model: str, checkpoints: dict[str, Path]) -> Plain:
    return Plain(checkpoints[model], AutoModelForMaskedLM)


def fill(host: Host, model: str, texts: Any, **fields: Any) -> Any:
    return call(host, "FillMask", model=f"models/{model}", texts=texts, **fields)


def vocabulary_size(host: Host, model: str) -> int:
    return int(call(host, "GetModel", name=f"models/{model}").model.vocabulary_size)


@pytest.mark.parametrize("top_k", [7, 150])
def test_predictions_are_those_of_transformers_text_by_text(
    host: Host, model: str, plain: Plain, monkeypatch: pytest.MonkeyPatch, top_k: int
) -> None:
    """The same if few logits are computed at a time."""
    if top_k > 100:
        limit_sizes(monkeypatch, logits_bytes=1)
    reply = fill(host, model, TEXTS, top_k=top_k, logits=True)
    for text, result in zip(TEXTS, reply.results, strict=True):
        starts = [place for place in range(len(text)) if text.startswith("[MASK]", place)]
        assert [(mask.start, mask.end) for mask in result.masks] == [(start, start + 6) for start in starts]
        assert [mask.token_index for mask in result.masks] == plain.masks(text)
        for mask, logits, logs in zip(result.masks, *plain.at_masks(text), strict=True):
            ids = [one.piece_ids[0] for one in mask.predictions]
            assert ids[:7] == np.argsort(-logs)[:7].tolist()
            assert [one.rank for one in mask.predictions] == list(range(1, top_k + 1))
            np.testing.assert_allclose([one.log_probability for one in mask.predictions], logs[ids], atol=2e-5)
            np.testing.assert_allclose([one.logit for one in mask.predictions], logits[ids], atol=1e-4)
            for one in mask.predictions:
                assert one.probability == pytest.approx(math.exp(one.log_probability))
                assert not one.HasField("candidate_probability")
                assert list(one.pieces) == plain.tokenizer.convert_ids_to_tokens(list(one.piece_ids))


@pytest.mark.parametrize("architecture", ["bert", "roberta"])
def test_a_candidate_inside_a_word_is_the_entry_that_continues_it(
    launch: Callable[..., Host], checkpoint: Callable[[str], Path], architecture: str
) -> None:
    """Where it would merge with the letter before it: the mask parts them."""
    plain = Plain(checkpoint(architecture), AutoModelForMaskedLM)
    words = {entry.removeprefix("##") for entry in plain.tokenizer.get_vocab()}
    last = {
        word: {letter: plain.tokenizer(f"x{letter}{word}", add_special_tokens=False)["input_ids"][-1] for letter in "aeirst"}
        for word in sorted(words)
        if len(word) > 1 and word.isascii() and word.isalpha() and word.islower()
    }
    single = {word: plain.tokenizer.get_vocab().get(f"##{word}" if architecture == "bert" else word) for word in last}
    # Behind some letters the word is its own entry, and behind this one it is not.
    cases = [
        (letter, word, single[word])
        for word, found in last.items()
        for letter, number in found.items()
        if single[word] in found.values() and number != single[word]
    ]
    host = launch(model=[f"m={checkpoint(architecture)}"])
    for letter, word, number in cases[:: max(1, len(cases) // 8)]:
        text = f"The x{letter}[MASK] sat on the mat."
        (mask,) = fill(host, "m", [text], candidates=[word]).results[0].masks
        assert list(mask.predictions[0].piece_ids) == [number], (letter, word)
        _, (logs,) = plain.at_masks(text)
        np.testing.assert_allclose(mask.predictions[0].log_probability, logs[number], atol=2e-5)
    assert cases


def test_the_reply_says_where_it_comes_from(host: Host, model: str) -> None:
    reply = fill(host, model, TEXTS[:1])
    provenance = reply.provenance
    assert provenance.model == f"models/{model}"
    assert provenance.weights_digest.startswith("sha256:")
    assert len(provenance.weights_digest) == len("sha256:") + 64
    assert (provenance.runtime, provenance.device) == (common_pb2.RUNTIME_TORCH, "cpu")
    assert provenance.precision == common_pb2.PRECISION_FLOAT32
    assert provenance.numbering == common_pb2.NUMBERING_ZERO_BASED
    assert provenance.library_versions["torch"] == torch.__version__.partition("+")[0]
    assert set(provenance.library_versions) == {"bertscope", "tokenizers", "torch", "transformers"}
    assert [one.HasField("logit") for one in reply.results[0].masks[0].predictions] == [False] * 5


def test_a_long_text_is_cut_only_when_asked_and_the_reply_says_by_how_much(host: Host, model: str) -> None:
    long, short = fill(host, model, [LONG, "The [MASK] sat."], truncate=True).results
    assert (long.tokens, len(long.masks)) == (64, 1)
    assert long.truncated_tokens > 30
    assert short.truncated_tokens == 0


@pytest.mark.slow
def test_calls_at_the_same_time_with_different_interventions_get_what_they_get_alone(host: Host) -> None:
    plans: list[list[dict[str, Any]]] = [
        [],
        [{"layer": 0, "mode": "MODE_ZERO"}],
        [{"layer": 1, "heads": [2, 0], "mode": "MODE_UNIFORM"}],
        [{"layer": 3, "heads": [1], "mode": "MODE_SCALE", "scale": -2.5}],
        [{"layer": 2, "mode": "MODE_UNIFORM"}, {"layer": 3, "mode": "MODE_ZERO"}],
    ]
    size = vocabulary_size(host, "bert")

    def ask(plan: list[dict[str, Any]]) -> list[float]:
        reply = fill(host, "bert", TEXTS, top_k=size, interventions=plan)
        masks = [mask for result in reply.results for mask in result.masks]
        by_piece = [sorted((p.piece_ids[0], p.log_probability) for p in mask.predictions) for mask in masks]
        return [value for mask in by_piece for _, value in mask]

    alone = [ask(plan) for plan in plans]
    for first in range(len(plans)):
        for second in range(first):
            assert not np.allclose(alone[first], alone[second], atol=1e-3)
    with ThreadPoolExecutor(10) as threads:
        together = list(threads.map(ask, plans * 6))
    for number, found in enumerate(together):
        np.testing.assert_allclose(found, alone[number % len(plans)], atol=2e-5)


def test_entries_are_scored_by_their_ids(host: Host, model: str, plain: Plain) -> None:
    size = vocabulary_size(host, model)
    ids = [0, size - 1, 7, size // 2]
    reply = fill(host, model, TEXTS, piece_ids=ids, logits=True)
    for text, result in zip(TEXTS, reply.results, strict=True):
        for mask, raw, expected in zip(result.masks, *plain.at_masks(text), strict=True):
            order = sorted(ids, key=lambda token: -expected[token])
            assert [prediction.piece_ids[:] for prediction in mask.predictions] == [[token] for token in order]
            assert [p.log_probability for p in mask.predictions] == pytest.approx([expected[t] for t in order], abs=2e-5)
            assert [p.logit for p in mask.predictions] == pytest.approx([raw[t] for t in order], abs=1e-4)
            assert [p.rank for p in mask.predictions] == [1 + (expected > expected[t]).sum() for t in order]
            assert sum(p.candidate_probability for p in mask.predictions) == pytest.approx(1)


def test_each_text_may_have_candidates_of_its_own(host: Host, model: str, plain: Plain) -> None:
    """A candidate of several pieces is the product over as many masks."""
    lists = [["cat", "unplayable"], ["dog"], ["city", "house", "cat"], ["cat", "unplayable"]]
    together = fill(host, model, TEXTS, text_candidates=[{"words": words} for words in lists], logits=True).results
    for text, words, result in zip(TEXTS, lists, together, strict=True):
        (alone,) = fill(host, model, [text], candidates=words, logits=True).results
        assert len(result.masks) == len(alone.masks)
        for mine, theirs in zip(result.masks, alone.masks, strict=True):
            assert [p.token for p in mine.predictions] == [p.token for p in theirs.predictions]
            for name in ("log_probability", "candidate_probability", "logit"):
                found, expected = ([getattr(p, name) for p in mask.predictions] for mask in (mine, theirs))
                assert found == pytest.approx(expected, abs=1e-4), name
            assert all(p.HasField("logit") == p.HasField("rank") == (len(p.pieces) == 1) for p in mine.predictions)
    ((word,),) = ([p for p in mask.predictions if p.token == "unplayable"] for mask in together[0].masks)
    _, logs = plain.at_masks(TEXTS[0].replace("[MASK]", "[MASK]" * len(word.pieces)))
    assert len(word.pieces) > 1
    assert word.log_probability == pytest.approx(sum(logs[k, piece] for k, piece in enumerate(word.piece_ids)), abs=1e-4)


def test_a_cut_text_leaves_room_for_the_longest_candidate_of_any_text(host: Host) -> None:
    given = [{"words": ["cat"]}, {"words": ["unplayable"]}]
    results = fill(host, "bert", [LONG] * 2, text_candidates=given, truncate=True).results
    assert [len(one.masks[0].predictions[0].pieces) > 1 for one in results] == [False, True]


JOINT = "The [MASK] sat on the [MASK]."
BEAM, LEFT_TO_RIGHT = cloze.MASK_DECODING_BEAM, cloze.MASK_DECODING_LEFT_TO_RIGHT
CONFIDENCE_FIRST = cloze.MASK_DECODING_CONFIDENCE_FIRST


def decode(host: Host, model: str = "bert", texts: Any = (JOINT,), **fields: Any) -> Any:
    return call(host, "FillMask", model=f"models/{model}", texts=texts, **fields)


def sums(result: cloze.FilledText) -> list[float]:
    return [filling.log_probability for filling in result.fillings]


@pytest.mark.slow
@pytest.mark.parametrize("model", ["bert", "roberta"])
@pytest.mark.parametrize("decoding", [LEFT_TO_RIGHT, CONFIDENCE_FIRST, BEAM])
def test_fillings_are_those_of_the_definition(host: Host, model: str, decoding: int, checkpoints: dict[str, Path]) -> None:
    definition = Definition(checkpoints[model])
    width = {"beam_width": 3} if decoding == BEAM else {}
    (result,) = decode(host, model, decoding=decoding, top_k=4, **width).results
    tokenizer = TextTokenizer.load(checkpoints[model], 64)
    sequence = tokenizer.encode(JOINT).sequence
    positions = [mask.token_index for mask in result.masks]
    assert [(mask.start, mask.end, len(mask.predictions)) for mask in result.masks] == [(4, 10, 0), (22, 28, 0)]
    if decoding == BEAM:
        expected = definition.beam(sequence, positions, 4, 3)
    else:
        expected = definition.greedy(sequence, positions, 4, confident=decoding == CONFIDENCE_FIRST)
    assert sums(result) == pytest.approx(expected, abs=2e-4)
    for filling in result.fillings:
        assert filling.log_probability == pytest.approx(
            math.fsum(log for span in filling.spans for log in span.log_probabilities)
        )
        assert filling.mean_log_probability == pytest.approx(filling.log_probability / 2)
        assert sorted(step for span in filling.spans for step in span.steps) == [0, 1]
        for span in filling.spans:
            assert list(span.pieces) == [tokenizer.piece(token) for token in span.piece_ids]
            assert span.token == tokenizer.word(span.piece_ids[0])


def test_one_mask_gets_the_predictions_of_independent_masks(host: Host) -> None:
    text = "Paris is the capital of [MASK]."
    (plain,) = decode(host, texts=[text]).results
    for decoding in (LEFT_TO_RIGHT, CONFIDENCE_FIRST, BEAM):
        (result,) = decode(host, texts=[text], decoding=decoding).results
        ids = [list(filling.spans[0].piece_ids) for filling in result.fillings]
        assert ids == [list(prediction.piece_ids) for prediction in plain.masks[0].predictions]
        assert sums(result) == pytest.approx([one.log_probability for one in plain.masks[0].predictions], abs=1e-6)
    assert not plain.fillings


def test_a_text_of_a_batch_is_filled_as_alone(host: Host) -> None:
    texts = [JOINT, "[MASK] is a city.", "The old man and his [MASK] [MASK] [MASK] to the market every day."]
    together = decode(host, texts=texts, decoding=BEAM, top_k=3).results
    for text, result in zip(texts, together, strict=True):
        (alone,) = decode(host, texts=[text], decoding=BEAM, top_k=3).results
        assert sums(result) == pytest.approx(sums(alone), abs=2e-5)


def test_a_mask_may_stand_for_several_pieces(host: Host) -> None:
    """By a beam unless another decoding is named; the fillings of one piece are among those that are compared."""
    (result,) = decode(host, texts=["The [MASK] song."], max_pieces=3, top_k=50).results
    means = [filling.mean_log_probability for filling in result.fillings]
    assert means == sorted(means, reverse=True)
    assert {len(filling.spans[0].pieces) for filling in result.fillings} == {1, 2, 3}
    (single,) = decode(host, texts=["The [MASK] song."], top_k=1).results
    ones = [filling.log_probability for filling in result.fillings if len(filling.spans[0].pieces) == 1]
    assert ones[0] == pytest.approx(single.masks[0].predictions[0].log_probability, abs=2e-5)
    named = decode(host, texts=["The [MASK] song."], max_pieces=3, top_k=50, decoding=BEAM).results[0]
    assert named == result
