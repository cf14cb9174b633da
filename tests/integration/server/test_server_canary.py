"""A word that goes through every rpc, answered and refused, and a token that goes with it, are in no log, metric or error."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import grpc
import pytest
from bertscope.inference import open_inference_pb2 as oip
from bertscope.v1 import ablation_pb2, attention_pb2, benchmark_pb2, classification_pb2, cloze_pb2, common_pb2, model_pb2
from bertscope.v1 import compression_pb2 as compression
from bertscope_service.logs import JsonFormatter, TextFormatter
from bertscope_service.servicers import cloze as cloze_servicer
from bertscope_service.services import PROTOS
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from prometheus_client import generate_latest

from tests.integration.server.harness import CALL_SECONDS, Host, wait_until

WORD, TOKEN = "tirilirilirili", "s3cr3t-t0k3n"
SAID = f"The {WORD} sat on the [MASK]."
METHODS: Mapping[str, MethodDescriptor] = {
    method.name: method for proto in PROTOS for service in proto.services_by_name.values() for method in service.methods
}
ZERO = common_pb2.HeadIntervention.MODE_ZERO
INPUT = common_pb2.TextInput(text=SAID, text_pair=WORD)
LONG = common_pb2.TextInput(text=f"{WORD} " * 500)
MASKED_LM = ablation_pb2.Objective(masked_lm_loss=ablation_pb2.MaskedLmLoss(texts=[SAID, WORD]))
MASKLESS = ablation_pb2.Objective(
    cloze=ablation_pb2.ClozePrompts(prompts=[ablation_pb2.ClozePrompt(text=WORD, answers=[WORD])])
)
LABELLED = ablation_pb2.LabelledText(input=INPUT, label=WORD)
MISLABELLED = ablation_pb2.Objective(classification=ablation_pb2.LabelledTexts(texts=[LABELLED]))
BRIEF = {"min_runs": 3, "min_seconds": 0.0, "batch_sizes": [1]}
HEADS = [common_pb2.LayerHeads(layer=0, heads=[0])]
SOME_HEADS = compression.CompressionStep(heads=compression.HeadRemoval(share=0.2, texts=[SAID]))
TOO_MANY_HEADS = compression.CompressionStep(heads=compression.HeadRemoval(share=1.5, texts=[SAID]))


def infer(name: str, text: str) -> oip.ModelInferRequest:
    contents = oip.InferTensorContents(bytes_contents=[text.encode()])
    tensor = oip.ModelInferRequest.InferInputTensor(name="text", datatype="BYTES", shape=[1], contents=contents)
    return oip.ModelInferRequest(model_name=name, inputs=[tensor])


def measure(**fields: Any) -> benchmark_pb2.BenchmarkModelsRequest:
    return benchmark_pb2.BenchmarkModelsRequest(models=["models/bert"], **fields)


def answered(folder: Path) -> list[tuple[str, Message]]:
    """Calls that succeed, in this order; `folder` is a model's."""
    brief = benchmark_pb2.Measurement(texts=[SAID], **BRIEF)
    return [
        ("FillMask", cloze_pb2.FillMaskRequest(texts=[SAID])),
        ("ExtractAttention", attention_pb2.ExtractAttentionRequest(inputs=[INPUT])),
        ("Classify", classification_pb2.ClassifyRequest(model="models/sorter", inputs=[INPUT])),
        ("SweepHeads", ablation_pb2.SweepHeadsRequest(objective=MASKED_LM, mode=ZERO)),
        ("RankHeads", ablation_pb2.RankHeadsRequest(objective=MASKED_LM)),
        ("PruneHeads", ablation_pb2.PruneHeadsRequest(heads=HEADS, model_id="pruned")),
        ("LoadModel", model_pb2.LoadModelRequest(model_id="spare", source=str(folder))),
        ("CompressModel", model_pb2.CompressModelRequest(model="models/spare", model_id="small", steps=[SOME_HEADS])),
        ("ListModels", model_pb2.ListModelsRequest()),
        ("GetModel", model_pb2.GetModelRequest(name="models/small")),
        *(("UnloadModel", model_pb2.UnloadModelRequest(name=f"models/{name}")) for name in ("pruned", "spare", "small")),
        ("BenchmarkModels", measure(measurement=brief, agreement_texts=[SAID])),
        ("ModelInfer", infer("bert", SAID)),
        ("ServerLive", oip.ServerLiveRequest()),
        ("ServerReady", oip.ServerReadyRequest()),
        ("ServerMetadata", oip.ServerMetadataRequest()),
        ("ModelReady", oip.ModelReadyRequest(name="bert")),
        ("ModelMetadata", oip.ModelMetadataRequest(name="bert")),
        ("ModelConfig", oip.ModelConfigRequest(name="bert")),
    ]


REFUSED: Sequence[tuple[str, Message]] = [
    ("FillMask", cloze_pb2.FillMaskRequest(texts=[WORD])),
    ("FillMask", cloze_pb2.FillMaskRequest(texts=[SAID, LONG.text])),
    ("FillMask", cloze_pb2.FillMaskRequest(texts=[SAID], candidates=[WORD, WORD])),
    ("FillMask", cloze_pb2.FillMaskRequest(texts=[SAID], candidates=[f"{WORD}🦖"])),
    ("FillMask", cloze_pb2.FillMaskRequest(texts=[SAID], reference_texts=[WORD])),
    ("ExtractAttention", attention_pb2.ExtractAttentionRequest(inputs=[INPUT, LONG])),
    ("Classify", classification_pb2.ClassifyRequest(inputs=[INPUT])),
    ("Classify", classification_pb2.ClassifyRequest(model="models/sorter", inputs=[LONG])),
    ("SweepHeads", ablation_pb2.SweepHeadsRequest(objective=MASKLESS, mode=ZERO)),
    ("SweepHeads", ablation_pb2.SweepHeadsRequest(model="models/sorter", objective=MISLABELLED, mode=ZERO)),
    ("RankHeads", ablation_pb2.RankHeadsRequest(objective=MASKLESS)),
    ("PruneHeads", ablation_pb2.PruneHeadsRequest(heads=HEADS, model_id="bert")),
    ("LoadModel", model_pb2.LoadModelRequest(model_id="spare", source="/nowhere")),
    ("CompressModel", model_pb2.CompressModelRequest(model_id="small", steps=[TOO_MANY_HEADS])),
    ("ListModels", model_pb2.ListModelsRequest(page_token=WORD)),
    ("GetModel", model_pb2.GetModelRequest(name="models/none")),
    ("UnloadModel", model_pb2.UnloadModelRequest(name="models/none")),
    ("BenchmarkModels", measure(measurement=benchmark_pb2.Measurement(texts=[LONG.text], **BRIEF))),
    ("BenchmarkModels", measure(measurement=benchmark_pb2.Measurement(**BRIEF), agreement_texts=[LONG.text])),
    ("BenchmarkStudies", benchmark_pb2.BenchmarkStudiesRequest(measurement=benchmark_pb2.Measurement(texts=[WORD]))),
    ("ModelInfer", infer("bert", LONG.text)),
    ("ModelInfer", infer("sorter", "")),
    ("ModelMetadata", oip.ModelMetadataRequest(name="none")),
    ("ModelConfig", oip.ModelConfigRequest(name="none")),
]


def ask(host: Host, name: str, request: Message) -> list[bytes]:
    """All replies, as bytes."""
    method = METHODS[name]
    path, options = f"/{method.containing_service.full_name}/{name}", {"request_serializer": type(request).SerializeToString}
    call: Any = (host.channel.unary_stream if method.server_streaming else host.channel.unary_unary)(path, **options)
    found = call(request, timeout=CALL_SECONDS, metadata=(("authorization", f"Bearer {TOKEN}"),))
    return list(found) if method.server_streaming else [found]


def check(place: str, found: str) -> None:
    # Half of the word would be too much as well.
    for secret in (WORD, WORD[: len(WORD) // 2], TOKEN):
        assert secret not in found, f"{place} has what a caller sent: {found}"


class Seen:
    """What the server has shown of itself since the test began."""

    def __init__(self, host: Host, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> None:
        caplog.set_level(logging.DEBUG)
        self._host, self._caplog, self._capfd = host, caplog, capfd

    @property
    def calls(self) -> int:
        """How many are in the log."""
        return sum(record.name == "bertscope.requests" and hasattr(record, "milliseconds") for record in self._caplog.records)

    def check(self) -> None:
        for formatter in (TextFormatter(), JsonFormatter()):
            for record in self._caplog.records:
                check("the log", formatter.format(record))
        check("the page of metrics", generate_latest(self._host.server.metrics.registry).decode())
        for stream in self._capfd.readouterr():
            check("the terminal", stream)


@pytest.fixture
def seen(lab: Host, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> Seen:
    return Seen(lab, caplog, capfd)


def test_every_rpc_is_here(checkpoints: dict[str, Path]) -> None:
    good, bad = ({name for name, _ in calls} for calls in (answered(checkpoints["bert"]), REFUSED))
    # What measures published systems takes minutes, and probes refuse nothing.
    assert METHODS.keys() - good == {"BenchmarkStudies"}
    assert METHODS.keys() - bad == {"ServerLive", "ServerReady", "ServerMetadata", "ModelReady"}


def test_what_is_answered_leaves_no_trace(lab: Host, seen: Seen, checkpoints: dict[str, Path]) -> None:
    calls = answered(checkpoints["bert"])
    for name, request in calls:
        assert ask(lab, name, request), name
    wait_until(lambda: seen.calls == len(calls), "every call is in the log")
    seen.check()


def test_what_is_refused_leaves_no_trace(lab: Host, seen: Seen) -> None:
    for name, request in REFUSED:
        with pytest.raises(grpc.RpcError) as caught:
            ask(lab, name, request)
        assert caught.value.code() is not grpc.StatusCode.INTERNAL, (name, caught.value.details())
        trailing = " ".join(str(value) for _, value in caught.value.trailing_metadata())
        check(f"the error of {name}", f"{caught.value.details()} {trailing}")
    wait_until(lambda: seen.calls == len(REFUSED), "every call is in the log")
    seen.check()


def test_what_is_malformed_leaves_no_trace(lab: Host, seen: Seen) -> None:
    malformed = [b"\xff" + WORD.encode(), b"\x12\x10" + WORD.encode() + b"\xff\xff"]
    for data in malformed:
        with pytest.raises(grpc.RpcError) as caught:
            lab.raw("ClozeService/FillMask", data)
        check("the error", str(caught.value.details()))
    wait_until(lambda: seen.calls == len(malformed), "every call is in the log")
    seen.check()


def test_a_bug_that_quotes_a_text_leaves_no_trace(lab: Host, seen: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(query: Any, tokenizer: object) -> None:
        try:
            raise KeyError(query.texts[0])
        except KeyError as error:
            raise RuntimeError(f"can't read {query.texts}") from error

    monkeypatch.setattr(cloze_servicer, "ClozePlan", broken)
    with pytest.raises(grpc.RpcError) as caught:
        ask(lab, "FillMask", cloze_pb2.FillMaskRequest(texts=[SAID]))
    assert caught.value.code() is grpc.StatusCode.INTERNAL
    check("the error", f"{caught.value.details()} {caught.value.trailing_metadata()}")
    wait_until(lambda: seen.calls == 1, "the call is in the log")
    seen.check()
