"""FillMask through gRPC gives what transformers gives."""

import math
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from bertscope.v1 import cloze_pb2 as cloze
from bertscope.v1 import common_pb2
from numpy.typing import NDArray
from transformers import AutoModelForMaskedLM, AutoTokenizer

from tests.support.harness import CALL_SECONDS, Host
from tests.support.limits import limit_sizes

Intervention = common_pb2.HeadIntervention
TEXTS = (
    "Paris is the capital of [MASK].",
    "The [MASK] sat on the [MASK].",
    "[MASK] nurse told the doctor that her patient had been waiting since 7:45 a.m.",
    "The café in Zürich serves a [MASK] soufflé 😀.",
)


class Reference:
    """An independent run of a checkpoint, one text at a time, without padding."""

    def __init__(self, folder: Path) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.model = AutoModelForMaskedLM.from_pretrained(folder, attn_implementation="eager").eval()

    @torch.no_grad()
    def log_probabilities(self, text: str) -> tuple[list[int], NDArray[Any]]:
        """Positions of the masks, and log probabilities there [masks, vocabulary]."""
        masks, logits = self._run(text)
        return masks.tolist(), logits.double().log_softmax(-1).numpy()

    @torch.no_grad()
    def logits(self, text: str) -> NDArray[Any]:
        """Scores at the masks [masks, vocabulary]."""
        return self._run(text)[1].numpy()

    def _run(self, text: str) -> tuple[torch.Tensor, torch.Tensor]:
        encoded = self.tokenizer(text.replace("[MASK]", self.tokenizer.mask_token), return_tensors="pt")
        masks = (encoded["input_ids"][0] == self.tokenizer.mask_token_id).nonzero()[:, 0]
        return masks, self.model(**encoded).logits[0, masks]


@pytest.fixture(scope="module", params=["bert", "roberta"])
def model(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def reference(model: str, checkpoints: dict[str, Path]) -> Reference:
    return Reference(checkpoints[model])


def fill(host: Host, model: str, texts: Any, **fields: Any) -> cloze.FillMaskResponse:
    request = cloze.FillMaskRequest(model=f"models/{model}", texts=texts, **fields)
    reply = host.cloze.FillMask(request, timeout=CALL_SECONDS)
    assert isinstance(reply, cloze.FillMaskResponse)
    return reply


def test_top_k_of_many_texts_equals_a_run_of_transformers_text_by_text(host: Host, model: str, reference: Reference) -> None:
    reply = fill(host, model, TEXTS, top_k=7)
    assert len(reply.results) == len(TEXTS)
    for text, result in zip(TEXTS, reply.results, strict=True):
        positions, logs = reference.log_probabilities(text)
        assert [mask.token_index for mask in result.masks] == positions
        for mask, expected in zip(result.masks, logs, strict=True):
            ids = [prediction.piece_ids[0] for prediction in mask.predictions]
            assert ids == np.argsort(-expected)[:7].tolist()
            found = [prediction.log_probability for prediction in mask.predictions]
            np.testing.assert_allclose(found, expected[ids], atol=2e-5)
            for rank, prediction in enumerate(mask.predictions, start=1):
                assert prediction.rank == rank
                assert prediction.probability == pytest.approx(math.exp(prediction.log_probability))
                assert not prediction.HasField("candidate_probability")
                assert list(prediction.pieces) == reference.tokenizer.convert_ids_to_tokens(list(prediction.piece_ids))


def test_masks_are_found_at_their_code_points_whatever_the_models_own_mask_is(host: Host, model: str) -> None:
    reply = fill(host, model, TEXTS)
    for text, result in zip(TEXTS, reply.results, strict=True):
        starts = [place for place in range(len(text)) if text.startswith("[MASK]", place)]
        assert [(mask.start, mask.end) for mask in result.masks] == [(start, start + 6) for start in starts]
        assert [len(mask.predictions) for mask in result.masks] == [5] * len(starts)


def fill_size(host: Host, model: str) -> int:
    loaded = host.server.registry.find(f"models/{model}").loaded
    assert loaded is not None
    return loaded.encoder.shape.vocabulary_size


def test_a_candidate_of_several_pieces_is_the_product_over_as_many_masks(host: Host, checkpoints: dict[str, Path]) -> None:
    reference = Reference(checkpoints["bert"])
    word = "unplayable"
    pieces = reference.tokenizer.encode(word, add_special_tokens=False)
    assert len(pieces) > 1
    (result,) = fill(host, "bert", ["The [MASK] song."], candidates=[word, "cat"]).results
    found = next(p for p in result.masks[0].predictions if p.token == word)
    _, logs = reference.log_probabilities(f"The {'[MASK]' * len(pieces)} song.")
    assert list(found.piece_ids) == pieces
    assert found.log_probability == pytest.approx(sum(logs[k, piece] for k, piece in enumerate(pieces)), abs=1e-4)
    assert not found.HasField("rank")


def test_the_reply_says_where_it_comes_from(host: Host, model: str) -> None:
    provenance = fill(host, model, TEXTS[:1]).provenance
    assert provenance.model == f"models/{model}"
    assert provenance.weights_digest.startswith("sha256:")
    assert len(provenance.weights_digest) == len("sha256:") + 64
    assert provenance.runtime == common_pb2.RUNTIME_TORCH
    assert provenance.device == "cpu"
    assert provenance.precision == common_pb2.PRECISION_FLOAT32
    assert provenance.numbering == common_pb2.NUMBERING_ZERO_BASED
    assert provenance.library_versions["torch"] == torch.__version__.partition("+")[0]
    assert set(provenance.library_versions) == {"bertscope", "tokenizers", "torch", "transformers"}


def test_a_long_text_is_cut_only_when_asked_and_the_reply_says_by_how_much(host: Host, model: str) -> None:
    text = "The [MASK] sat." + " the" * 100
    (result,) = fill(host, model, [text], truncate=True).results
    assert result.tokens == 64
    assert result.truncated_tokens > 30
    assert len(result.masks) == 1
    (short,) = fill(host, model, ["The [MASK] sat."], truncate=True).results
    assert short.truncated_tokens == 0


@pytest.mark.slow
def test_calls_at_the_same_time_with_different_interventions_get_what_they_get_alone(host: Host) -> None:
    plans = [
        [],
        [Intervention(layer=0, mode=Intervention.MODE_ZERO)],
        [Intervention(layer=1, heads=[2, 0], mode=Intervention.MODE_UNIFORM)],
        [Intervention(layer=3, heads=[1], mode=Intervention.MODE_SCALE, scale=-2.5)],
        [Intervention(layer=2, mode=Intervention.MODE_UNIFORM), Intervention(layer=3, mode=Intervention.MODE_ZERO)],
    ]

    def ask(plan: list[Intervention]) -> list[float]:
        reply = fill(host, "bert", TEXTS, top_k=fill_size(host, "bert"), interventions=plan)
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


@pytest.mark.parametrize("top_k", [3, 150])
def test_logits_are_transformers_own(
    host: Host, model: str, reference: Reference, monkeypatch: pytest.MonkeyPatch, top_k: int
) -> None:
    """The same if few are computed at a time."""
    if top_k > 100:
        limit_sizes(monkeypatch, logits_bytes=1)
    reply = fill(host, model, TEXTS, top_k=top_k, logits=True)
    for text, result in zip(TEXTS, reply.results, strict=True):
        for mask, expected in zip(result.masks, reference.logits(text), strict=True):
            found = [prediction.logit for prediction in mask.predictions]
            ids = [prediction.piece_ids[0] for prediction in mask.predictions]
            np.testing.assert_allclose(found, expected[ids], atol=1e-4)
    plain = fill(host, model, TEXTS, top_k=top_k)
    assert not any(p.HasField("logit") for result in plain.results for mask in result.masks for p in mask.predictions)


def test_entries_are_scored_by_their_ids(host: Host, model: str, reference: Reference) -> None:
    size = fill_size(host, model)
    ids = [0, size - 1, 7, size // 2]
    reply = fill(host, model, TEXTS, piece_ids=ids, logits=True)
    for text, result in zip(TEXTS, reply.results, strict=True):
        _, logs = reference.log_probabilities(text)
        for mask, expected, raw in zip(result.masks, logs, reference.logits(text), strict=True):
            order = sorted(ids, key=lambda token: -expected[token])
            assert [prediction.piece_ids[:] for prediction in mask.predictions] == [[token] for token in order]
            assert [p.log_probability for p in mask.predictions] == pytest.approx([expected[t] for t in order], abs=2e-5)
            assert [p.logit for p in mask.predictions] == pytest.approx([raw[t] for t in order], abs=1e-4)
            assert [p.rank for p in mask.predictions] == [1 + (expected > expected[t]).sum() for t in order]
            assert sum(p.candidate_probability for p in mask.predictions) == pytest.approx(1)


def test_each_text_may_have_candidates_of_its_own(host: Host, model: str) -> None:
    lists = [["cat", "unplayable"], ["dog"], ["city", "house", "cat"], ["cat", "unplayable"]]
    given = [cloze.CandidateList(words=words) for words in lists]
    together = fill(host, model, TEXTS, text_candidates=given, logits=True).results
    for text, words, result in zip(TEXTS, lists, together, strict=True):
        (alone,) = fill(host, model, [text], candidates=words, logits=True).results
        assert len(result.masks) == len(alone.masks)
        for mine, theirs in zip(result.masks, alone.masks, strict=True):
            assert [p.token for p in mine.predictions] == [p.token for p in theirs.predictions]
            for name in ("log_probability", "candidate_probability", "logit"):
                found, expected = ([getattr(p, name) for p in mask.predictions] for mask in (mine, theirs))
                assert found == pytest.approx(expected, abs=1e-4), name
            assert all(p.HasField("logit") == (len(p.pieces) == 1) for p in mine.predictions)


def test_a_cut_text_leaves_room_for_the_longest_candidate_of_any_text(host: Host) -> None:
    given = [cloze.CandidateList(words=["cat"]), cloze.CandidateList(words=["unplayable"])]
    texts = ["The [MASK] sat." + " the" * 100] * 2
    pieces = [
        p
        for result in fill(host, "bert", texts, text_candidates=given, truncate=True).results
        for p in result.masks[0].predictions
    ]
    assert [len(p.pieces) > 1 for p in pieces] == [False, True]
