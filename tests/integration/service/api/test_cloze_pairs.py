"""Pairs of texts in FillMask, and whether the second one follows, through gRPC."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
import torch
from bertscope.v1 import cloze_pb2 as cloze
from bertscope.v1 import common_pb2, model_pb2
from transformers import AutoModelForPreTraining, AutoTokenizer

from tests.support.exports import made_once
from tests.support.harness import CALL_SECONDS, Host, LoopThread, launched, refused
from tests.support.tiny import write_checkpoint

TEXTS = ("He went to the [MASK].", "The cat sat.", "“Wait!” she cried.", "The [MASK] sat on the [MASK].")
PAIRS = ("It was [MASK] and old.", "It slept in the garden.", "[MASK] waited.", "Nobody was there.")


@pytest.fixture(scope="module")
def folders(export_cache: Path) -> dict[str, Path]:
    base = export_cache.with_name("related")
    plain = made_once(base / "bert", lambda target: write_checkpoint("bert", target, relates=True))
    alone = made_once(base / "alone", lambda target: write_checkpoint("bert", target, head=False, relates=True))
    return {"bert": plain, "alone": alone}


@pytest.fixture(scope="module")
def related(loop: LoopThread, folders: dict[str, Path]) -> Iterator[Host]:
    """Hosts models/bert, which has both heads, and models/alone, which has only the next-sentence head."""
    with launched(loop, model=[f"{name}={folder}" for name, folder in folders.items()]) as running:
        yield running


def fill(host: Host, model: str = "bert", texts: Any = TEXTS, pairs: Any = PAIRS, **fields: Any) -> list[cloze.FilledText]:
    fields.setdefault("next_sentence", True)
    request = cloze.FillMaskRequest(model=f"models/{model}", texts=texts, text_pairs=pairs, **fields)
    return list(host.cloze.FillMask(request, timeout=CALL_SECONDS).results)


@pytest.fixture(scope="module")
def expected(folders: dict[str, Path]) -> list[tuple[float, list[int], torch.Tensor]]:
    """Of each pair, by transformers alone: the probability that it follows, the masks, and log-probabilities there."""
    model = AutoModelForPreTraining.from_pretrained(folders["bert"], attn_implementation="eager").eval()
    tokenizer = AutoTokenizer.from_pretrained(folders["bert"])
    found = []
    for text, pair in zip(TEXTS, PAIRS, strict=True):
        encoded = tokenizer(text, pair, return_tensors="pt")
        masks = (encoded["input_ids"][0] == tokenizer.mask_token_id).nonzero()[:, 0]
        with torch.no_grad():
            output = model(**encoded)
        logs = output.prediction_logits[0, masks].double().log_softmax(-1)
        found.append((float(output.seq_relationship_logits[0].double().softmax(-1)[0]), masks.tolist(), logs))
    return found


@pytest.mark.slow
def test_masks_of_both_texts_and_the_probability(related: Host, expected: Any) -> None:
    together = fill(related)
    alone = [fill(related, "bert", [text], [pair])[0] for text, pair in zip(TEXTS, PAIRS, strict=True)]
    for results in (together, alone):
        for text, pair, result, (follows, masks, logs) in zip(TEXTS, PAIRS, results, expected, strict=True):
            assert result.next_sentence_probability == pytest.approx(follows, abs=1e-4)
            assert [mask.token_index for mask in result.masks] == masks
            assert [(text, pair)[mask.segment][mask.start : mask.end] for mask in result.masks] == ["[MASK]"] * len(masks)
            assert sum(mask.segment for mask in result.masks) == pair.count("[MASK]")
            for mask, row in zip(result.masks, logs, strict=True):
                got = [(word.piece_ids[0], word.log_probability) for word in mask.predictions]
                assert [log for _, log in got] == pytest.approx(row.topk(5).values.tolist(), abs=1e-4)
    quiet = fill(related, "bert", TEXTS[:1], PAIRS[:1], next_sentence=False)
    assert not quiet[0].HasField("next_sentence_probability")
    assert len(quiet[0].masks) == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    "fields",
    [
        {"candidates": ["cat", "unplayable"]},
        {"text_candidates": [cloze.CandidateList(words=["cat", "unplayable"])] * 4},
        {"decoding": cloze.MASK_DECODING_BEAM, "top_k": 2},
        {"max_pieces": 2, "top_k": 2},
        {"truncate": True, "logits": True},
    ],
)
def test_every_way_of_filling_takes_pairs(related: Host, fields: dict[str, Any], expected: Any) -> None:
    results = fill(related, **fields)
    assert [result.next_sentence_probability for result in results] == pytest.approx([one[0] for one in expected], abs=1e-4)
    for result, (_, masks, _) in zip(results, expected, strict=True):
        assert [mask.token_index for mask in result.masks] == masks
        joint = "top_k" in fields
        assert [len(mask.predictions) for mask in result.masks] == [0 if joint else 5 if "logits" in fields else 2] * len(masks)
        assert len(result.fillings) == (2 if joint and masks else 0)
        assert all(len(filling.spans) == len(masks) for filling in result.fillings)


def test_a_pair_is_cut_at_its_longer_text(related: Host) -> None:
    (result,) = fill(related, texts=["cat " * 90], pairs=["The dog sat."], truncate=True)
    assert (result.tokens, len(result.masks)) == (64, 0)
    assert result.truncated_tokens > 0
    with refused(grpc.StatusCode.INVALID_ARGUMENT) as failures:
        fill(related, texts=["cat " * 90 + "[MASK]"], pairs=["The dog."], truncate=True)
    assert (failures[0].fields[0], failures[0].info.reason) == ("texts[0]", "MASK_TRUNCATED")


def test_interventions_change_the_probability(related: Host) -> None:
    off = common_pb2.HeadIntervention(layer=1, heads=[0, 1, 2], mode=common_pb2.HeadIntervention.MODE_ZERO)
    changed, plain = (fill(related, interventions=given)[0].next_sentence_probability for given in ([off], []))
    assert changed != pytest.approx(plain, abs=1e-4)


def test_a_model_with_that_head_alone(related: Host, expected: Any) -> None:
    (result,) = fill(related, "alone", TEXTS[1:2], PAIRS[1:2])
    assert result.next_sentence_probability == pytest.approx(expected[1][0], abs=1e-4)
    for fields in ({}, {"decoding": cloze.MASK_DECODING_BEAM}):
        with refused(grpc.StatusCode.UNIMPLEMENTED) as failures:
            fill(related, "alone", **fields)
        assert failures[0].info.reason == "NO_MASKED_LM_HEAD"


@pytest.mark.slow
def test_capabilities_name_the_head(related: Host, host: Host) -> None:
    def has(running: Host, name: str) -> bool:
        model = running.models.GetModel(model_pb2.GetModelRequest(name=f"models/{name}"), timeout=CALL_SECONDS).model
        return model_pb2.CAPABILITY_NEXT_SENTENCE in model.capabilities

    assert [has(related, name) for name in ("bert", "alone")] == [True] * 2
    assert [has(host, name) for name in ("bert", "roberta", "headless")] == [False] * 3
    for fields in ({}, {"max_pieces": 2}):
        with refused(grpc.StatusCode.UNIMPLEMENTED) as failures:
            fill(host, "bert", **fields)
        assert failures[0].info.reason == "NO_NEXT_SENTENCE_HEAD"
    assert len(fill(host, "roberta", TEXTS[:1], PAIRS[:1], next_sentence=False)[0].masks) == 2


@pytest.mark.parametrize(
    ("fields", "field", "reason"),
    [
        ({"pairs": ["one"]}, "text_pairs", "TEXT_PAIRS_MISCOUNTED"),
        ({"pairs": []}, "next_sentence", "NO_TEXT_PAIR"),
        ({"pairs": [*PAIRS[:3], "\u200b\x01"]}, "text_pairs[3]", "EMPTY_TEXT"),
        ({"next_sentence": False}, "texts[1]", "NO_MASK"),
    ],
)
@pytest.mark.parametrize("decoding", [cloze.MASK_DECODING_UNSPECIFIED, cloze.MASK_DECODING_BEAM])
def test_bad_pairs_are_refused_by_name(related: Host, decoding: int, fields: dict[str, Any], field: str, reason: str) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT) as failures:
        fill(related, decoding=decoding, **fields)
    assert (failures[0].fields[0], failures[0].info.reason) == (field, reason)
