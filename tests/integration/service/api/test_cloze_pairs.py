"""Pairs of texts in FillMask, and whether the second one follows, through gRPC."""

from pathlib import Path
from typing import Any

import grpc
import pytest
from bertscope.v1 import cloze_pb2 as cloze
from bertscope.v1 import model_pb2
from transformers import AutoModelForPreTraining

from tests.support.calls import call, get, refusal
from tests.support.exports import made_once
from tests.support.harness import Host
from tests.support.plain import Plain
from tests.support.tiny import write_checkpoint

TEXTS = ("He went to the [MASK].", "The cat sat.", "“Wait!” she cried.", "The [MASK] sat on the [MASK].")
PAIRS = ("It was [MASK] and old.", "It slept in the garden.", "[MASK] waited.", "Nobody was there.")


@pytest.fixture(scope="module")
def folders(export_cache: Path) -> dict[str, Path]:
    """models/bert, which has both heads, and models/alone, which has only the next-sentence head."""
    base = export_cache.with_name("related")
    plain = made_once(base / "bert", lambda target: write_checkpoint("bert", target, relates=True))
    alone = made_once(base / "alone", lambda target: write_checkpoint("bert", target, head=False, relates=True))
    return {"bert": plain, "alone": alone}


@pytest.fixture(scope="module")
def plain(folders: dict[str, Path]) -> Plain:
    return Plain(folders["bert"], AutoModelForPreTraining)


@pytest.fixture(scope="module")
def follows(plain: Plain) -> list[float]:
    """The probability that a pair's second text follows, by transformers alone."""
    scores = [plain.run(*pair).seq_relationship_logits[0] for pair in zip(TEXTS, PAIRS, strict=True)]
    return [float(one.double().softmax(-1)[0]) for one in scores]


def asked(model: str = "bert", texts: Any = TEXTS, pairs: Any = PAIRS, **fields: Any) -> dict[str, Any]:
    return {"model": f"models/{model}", "texts": texts, "text_pairs": pairs, "next_sentence": True} | fields


def fill(host: Host, *args: Any, **fields: Any) -> Any:
    return call(host, "FillMask", **asked(*args, **fields)).results


@pytest.mark.slow
def test_masks_of_both_texts_and_the_probability(zoo: Host, plain: Plain, follows: list[float]) -> None:
    together = fill(zoo)
    alone = [fill(zoo, "bert", [text], [pair])[0] for text, pair in zip(TEXTS, PAIRS, strict=True)]
    for results in (together, alone):
        for text, pair, result, probability in zip(TEXTS, PAIRS, results, follows, strict=True):
            assert result.next_sentence_probability == pytest.approx(probability, abs=1e-4)
            assert [mask.token_index for mask in result.masks] == plain.masks(text, pair)
            assert {(text, pair)[mask.segment][mask.start : mask.end] for mask in result.masks} <= {"[MASK]"}
            assert sum(mask.segment for mask in result.masks) == pair.count("[MASK]")
            for mask, logs in zip(result.masks, plain.at_masks(text, pair)[1], strict=True):
                assert [one.log_probability for one in mask.predictions] == pytest.approx(sorted(logs)[:-6:-1], abs=1e-4)
    quiet = fill(zoo, "bert", TEXTS[:1], PAIRS[:1], next_sentence=False)
    assert not quiet[0].HasField("next_sentence_probability")
    assert len(quiet[0].masks) == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    "fields",
    [
        {"candidates": ["cat", "unplayable"]},
        {"text_candidates": [{"words": ["cat", "unplayable"]}] * 4},
        {"decoding": cloze.MASK_DECODING_BEAM, "top_k": 2},
        {"max_pieces": 2, "top_k": 2},
        {"truncate": True, "logits": True},
    ],
)
def test_every_way_of_filling_takes_pairs(zoo: Host, plain: Plain, fields: dict[str, Any], follows: list[float]) -> None:
    results = fill(zoo, **fields)
    assert [result.next_sentence_probability for result in results] == pytest.approx(follows, abs=1e-4)
    for text, pair, result in zip(TEXTS, PAIRS, results, strict=True):
        masks = plain.masks(text, pair)
        assert [mask.token_index for mask in result.masks] == masks
        joint = "top_k" in fields
        assert [len(mask.predictions) for mask in result.masks] == [0 if joint else 5 if "logits" in fields else 2] * len(masks)
        assert len(result.fillings) == (2 if joint and masks else 0)
        assert all(len(filling.spans) == len(masks) for filling in result.fillings)


def test_a_pair_is_cut_at_its_longer_text(zoo: Host) -> None:
    (result,) = fill(zoo, texts=["cat " * 90], pairs=["The dog sat."], truncate=True)
    assert (result.tokens, len(result.masks)) == (64, 0)
    assert result.truncated_tokens > 0
    failure = refusal(zoo, "FillMask", **asked("bert", ["cat " * 90 + "[MASK]"], ["The dog."], truncate=True))
    assert (failure.fields[0], failure.info.reason) == ("texts[0]", "MASK_TRUNCATED")


def test_bad_pairs_are_refused_by_name(zoo: Host) -> None:
    failure = refusal(zoo, "FillMask", **asked(pairs=[]))
    assert (failure.fields, failure.info.reason) == (["next_sentence"], "NO_TEXT_PAIR")
    for decoding in (cloze.MASK_DECODING_UNSPECIFIED, cloze.MASK_DECODING_BEAM):
        failure = refusal(zoo, "FillMask", **asked(pairs=[*PAIRS[:3], "\u200b\x01"], decoding=decoding))
        assert (failure.fields[0], failure.info.reason) == ("text_pairs[3]", "EMPTY_TEXT")


def test_models_that_lack_a_head(zoo: Host, host: Host, follows: list[float]) -> None:
    def has(running: Host, name: str) -> bool:
        return model_pb2.CAPABILITY_NEXT_SENTENCE in get(running, f"models/{name}").capabilities

    assert [has(zoo, name) for name in ("bert", "alone")] == [True] * 2
    assert [has(host, name) for name in ("bert", "roberta", "headless")] == [False] * 3
    (result,) = fill(zoo, "alone", TEXTS[1:2], PAIRS[1:2])
    assert result.next_sentence_probability == pytest.approx(follows[1], abs=1e-4)
    for fields in ({}, {"decoding": cloze.MASK_DECODING_BEAM}):
        for running, name, reason in ((zoo, "alone", "NO_MASKED_LM_HEAD"), (host, "bert", "NO_NEXT_SENTENCE_HEAD")):
            failure = refusal(running, "FillMask", code=grpc.StatusCode.UNIMPLEMENTED, **asked(name, **fields))
            assert failure.info.reason == reason
    assert len(fill(host, "roberta", TEXTS[:1], PAIRS[:1], next_sentence=False)[0].masks) == 2
