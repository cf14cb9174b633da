"""How much a request may ask for: limits of the settings, and bounds of work and of replies. What is no request is refused."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from bertscope.v1 import cloze_pb2

from tests.support.calls import RPCS, call, refusal
from tests.support.harness import CALL_SECONDS, Host, LoopThread, launched, refused
from tests.support.tensors import request_of
from tests.support.tiny import SENTENCES
from tools.protos.samples import good

TEXT = "The cat sat on the [MASK]."
INPUT = {"text": TEXT}
WORDS = {"text": TEXT, "spans": [{"end": 3}, {"start": 4, "end": 7}], "target": {"mask": {"answer": "the"}}}
LIMIT = 36
"""The most tokens of a request: four times those of TEXT."""


@pytest.fixture(scope="module")
def strict(loop: LoopThread, checkpoints: dict[str, Path], sorters: dict[str, Path]) -> Iterator[Host]:
    limits = {"max_candidates": 2, "max_text_characters": 200, "max_texts": 10, "sweep_memory_bytes": 5000}
    limits |= {"max_request_tokens": LIMIT, "max_metadata_bytes": 2048, "max_message_bytes": 10_000}
    models = [f"bert={checkpoints['bert']}", f"sorter={sorters['sorter']}"]
    with launched(loop, model=models, **limits) as host:
        yield host


def infer(texts: int) -> dict[str, Any]:
    request = request_of({"text": (TEXT,) * texts})
    return {field.name: value for field, value in request.ListFields()}


@pytest.mark.parametrize(
    ("rpc", "fields", "most"),
    [
        ("FillMask", lambda texts: {"texts": [TEXT] * texts}, 4),
        ("ExtractAttention", lambda texts: {"inputs": [INPUT] * texts}, 4),
        ("Classify", lambda texts: {"inputs": [INPUT] * texts, "model": "models/sorter"}, 4),
        ("ModelInfer", infer, 4),
        # Two rows, and one without each of two words.
        ("AttributeWords", lambda texts: {"inputs": [WORDS] * texts, "method": "ATTRIBUTION_METHOD_OCCLUSION"}, 1),
    ],
)
def test_tokens_of_a_request(strict: Host, rpc: str, fields: Callable[[int], dict[str, Any]], most: int) -> None:
    assert call(strict, rpc, **fields(most))
    failure = refusal(strict, rpc, **fields(most + 1))
    assert (failure.info.reason, failure.info.metadata["limit"]) == ("TOO_MANY_TOKENS", str(LIMIT))
    assert call(strict, rpc, **fields(1))


def test_parts_of_a_text_fit_where_it_does_not(strict: Host) -> None:
    failure = refusal(strict, "ScoreTexts", inputs=[INPUT])
    assert (failure.fields, failure.info.reason) == (["inputs"], "TOO_MANY_TOKENS")
    assert "max_words" in failure.message
    assert call(strict, "ScoreTexts", inputs=[INPUT | {"max_words": 2}]).results[0].scored_words == 2


def test_value_zeroing_takes_all_pairs_of_tokens(launch: Callable[..., Host]) -> None:
    host, zeroing = launch(max_request_tokens=600), {"quantity": "ATTENTION_QUANTITY_VALUE_ZEROING"}
    inputs = [{"text": "The cat sat."}] * 40
    call(host, "ExtractAttention", inputs=inputs)
    call(host, "ExtractAttention", inputs=inputs[:4], **zeroing)
    failure = refusal(host, "ExtractAttention", inputs=inputs, **zeroing)
    assert (failure.fields, failure.info.reason) == (["inputs"], "TOO_MANY_TOKENS")
    assert "in parts" in failure.message


SWEEP = {"mode": "MODE_ZERO", "objective": {"divergence": {"inputs": [{"text": "The [MASK] sat."}]}}}


@pytest.mark.parametrize(
    ("rpc", "taken", "refused_fields", "said"),
    [
        ("FillMask", {"texts": [TEXT], "candidates": ["cat", "dog"]}, {"candidates": ["cat", "dog", "mat"]}, "takes 2"),
        ("FillMask", {"texts": [TEXT]}, {"texts": [TEXT] * 11}, "takes 10"),
        ("FillMask", {"texts": [TEXT]}, {"texts": [TEXT + "x" * 200]}, "takes 200"),
        ("SweepHeads", SWEEP | {"memory_bytes": 5000}, {"memory_bytes": 5001}, "allows 1 to 5000"),
    ],
)
def test_limits_come_from_the_settings(
    strict: Host, rpc: str, taken: dict[str, Any], refused_fields: dict[str, Any], said: str
) -> None:
    assert call(strict, rpc, **taken)
    assert said in refusal(strict, rpc, **taken | refused_fields).message


@pytest.mark.slow
@pytest.mark.parametrize(("size", "taken"), [(1000, True), (2048, False)])
def test_metadata_of_a_call(strict: Host, size: int, taken: bool) -> None:
    request = cloze_pb2.FillMaskRequest(texts=[TEXT])
    filling = strict.cloze.FillMask.future(request, metadata=(("x-more", "x" * size),), timeout=CALL_SECONDS)
    assert filling.code() is (grpc.StatusCode.OK if taken else grpc.StatusCode.RESOURCE_EXHAUSTED)


@pytest.mark.slow
def test_a_message_over_the_limit_is_refused_by_the_transport(strict: Host) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        call(strict, "FillMask", texts=[TEXT + "x" * 10_000])
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "10000" in str(caught.value.details())
    assert call(strict, "FillMask", texts=[TEXT])


PAIRS = {"pairs": [{"good": "The cat.", "bad": "Cat the."}]}
NEURONS = {"scopes": [{"site": "SITE_ACTIVATIONS", "layers": [3], "each": "UNITS_EACH"}]}
ANALYSES, API = "bertscope_service.analyses", "bertscope_service.api"


@pytest.mark.parametrize(
    ("rpc", "changed", "bound", "field", "reason"),
    [
        ("ScoreRelations", {}, f"{ANALYSES}.relations.MAX_BYTES", "texts", "REPLY_TOO_LARGE"),
        ("ScoreFeatures", {}, f"{ANALYSES}.features.MAX_BYTES", "texts", "REPLY_TOO_LARGE"),
        ("ClassifyTokens", {}, f"{ANALYSES}.token_classification.MAX_PREDICTIONS", "inputs", "TOO_MANY_PREDICTIONS"),
        ("DescribeGeometry", {}, f"{ANALYSES}.geometry.MAX_MOMENT_BYTES", "second_moments", "MOMENTS_TOO_LARGE"),
        ("FillMask", {"decoding": "MASK_DECODING_BEAM"}, f"{ANALYSES}.fillings.MAX_READ", "top_k", "TOO_MANY_PREDICTIONS"),
        ("ApplyProbe", {}, f"{ANALYSES}.probe_application.MAX_ANSWERS", "inputs", "TOO_MANY_PREDICTIONS"),
        ("ApplyProbe", {}, f"{ANALYSES}.probe_application.MAX_SPAN_PIECES", "inputs", "TOO_MANY_TOKENS"),
        ("Inspect", {"maps": [{}]}, f"{ANALYSES}.inspection.MAX_MAP_BYTES", "maps", "REPLY_TOO_LARGE"),
        ("FindContexts", {}, f"{ANALYSES}.contexts.MAX_BYTES", "best", "CONTEXTS_TOO_LARGE"),
        ("ModelInfer", {}, f"{API}.inference_requests.MAX_REPLY_BYTES", "outputs", "REPLY_TOO_LARGE"),
        ("SweepSites", NEURONS, "bertscope_service.ablation.site_plan.MAX_CHANGES", "scopes", "TOO_MANY_CHANGES"),
        (
            "SweepHeads",
            {"objective": {"minimal_pairs": PAIRS}},
            f"{ANALYSES}.objectives.minimal_pairs.MAX_ROW_TOKENS",
            "objective.minimal_pairs.pairs",
            "TOO_MUCH_WORK",
        ),
    ],
)
def test_work_and_replies_are_bounded(
    lab: Host,
    checkpoints: dict[str, Path],
    monkeypatch: pytest.MonkeyPatch,
    rpc: str,
    changed: dict[str, Any],
    bound: str,
    field: str,
    reason: str,
) -> None:
    request = good(checkpoints["bert"])[rpc]
    for name in changed:
        request.ClearField(name)
    request.MergeFrom(type(request)(**changed))
    assert lab.ask(RPCS[rpc], request.SerializeToString())
    monkeypatch.setattr(bound, 3)
    with refused(grpc.StatusCode.INVALID_ARGUMENT) as failures:
        lab.ask(RPCS[rpc], request.SerializeToString())
    assert (failures[0].fields, failures[0].info.reason) == ([field], reason)


FACT = {"subject": "France", "objects": ["the"]}
TEMPLATES = [{"text": f"{number} [X] [Y]"} for number in range(100)]


@pytest.mark.parametrize(
    ("rpc", "fields", "field", "reason"),
    [
        ("CompareTexts", {"sets": [{"texts": [{"text": "a"}, {"text": "b"}]}] * 129}, "sets", "TOO_MANY_TEXTS"),
        (
            "QueryFacts",
            {"relations": [{"name": "r", "templates": TEMPLATES}], "facts": [FACT] * 60, "top_k": 100},
            "facts",
            "TOO_MANY_PREDICTIONS",
        ),
        (
            "AnswerQuestions",
            {
                "model": "models/answerer",
                "stride": 1,
                "inputs": [{"question": "a", "passage": passage} for passage in ("b", "the cat " * 12_000)],
            },
            "inputs[1]",
            "TOO_MANY_TOKENS",
        ),
    ],
)
def test_what_adds_up_is_bounded(lab: Host, rpc: str, fields: dict[str, Any], field: str, reason: str) -> None:
    failure = refusal(lab, rpc, **fields)
    assert (failure.fields, failure.info.reason) == ([field], reason)


def test_vectors_of_directions_are_bounded(lab: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{API}.context_units.MAX_DIRECTION_BYTES", 4 * 32)
    direction = {"site": "SITE_STATE", "vectors": {"dtype": "DATA_TYPE_FLOAT32", "shape": [1, 32], "data": b"\0\0\x80?" * 32}}
    texts = [{"text": {"input": {"text": SENTENCES[0]}}}]
    call(lab, "FindContexts", texts=texts, directions=[direction])
    failure = refusal(lab, "FindContexts", texts=texts, directions=[direction, direction | {"layer": 1}])
    assert (failure.fields, failure.info.reason) == (["directions"], "VECTORS_TOO_LARGE")


def test_a_text_that_is_not_utf_8(lab: Host) -> None:
    text = "Zürich is in [MASK].".encode("latin-1")
    with refused(grpc.StatusCode.INVALID_ARGUMENT) as failures:
        lab.raw("ClozeService/FillMask", b"\x12" + bytes([len(text)]) + text)
    assert failures[0].info.reason == "MALFORMED_REQUEST"
    assert "encode text as UTF-8" in failures[0].message


def test_unknown_methods_and_services(lab: Host) -> None:
    for method in ("ClozeService/FillMasks", "NoService/Nothing"):
        with pytest.raises(grpc.RpcError) as caught:
            lab.raw(method, b"")
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
