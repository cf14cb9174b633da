"""A text that a hosted tokenizer fails on is an error of its model, in every call that tokenises; others are answered."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from bertscope.inference import open_inference_pb2 as oip
from bertscope.inference import open_inference_pb2_grpc as oip_grpc
from bertscope.v1 import (
    ablation_pb2,
    attention_pb2,
    benchmark_pb2,
    benchmark_pb2_grpc,
    classification_pb2,
    cloze_pb2,
    common_pb2,
    compression_pb2,
    model_pb2,
)

from tests.support.harness import CALL_SECONDS, Host, LoopThread, launched, refused
from tests.support.sweeps import cloze_prompts
from tests.support.tiny import write_checkpoint

GOOD, BAD = "The cat sat.", "猫 sat."
"""The second has a character that is not in the vocabulary, and there is no entry for such."""

MASKED = f"{BAD} The [MASK] sat."
MEAN = common_pb2.HeadIntervention(layer=0, heads=[0], mode=common_pb2.HeadIntervention.MODE_MEAN)
BRIEF = {"min_runs": 3, "min_seconds": 0.0, "batch_sizes": [1]}
Step = compression_pb2.CompressionStep


def without_unknown(folder: Path) -> Path:
    """Take the entry for what is unknown out of a tokenizer's vocabulary, which its tokenizer finds out when it needs it."""
    path = folder / "tokenizer.json"
    written = json.loads(path.read_text(encoding="utf-8"))
    del written["model"]["vocab"]["[UNK]"]
    path.write_text(json.dumps(written), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def clinic(loop: LoopThread, checkpoints: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """Hosts models/ill and models/sick, a classifier, whose tokenizers fail on some texts, and models/bert, whose does not."""
    root = tmp_path_factory.mktemp("clinic")
    folders = {
        "ill": without_unknown(write_checkpoint("bert", root / "ill")),
        "sick": without_unknown(write_checkpoint("bert", root / "sick", labels=2)),
        "bert": checkpoints["bert"],
    }
    with launched(loop, model=[f"{name}={folder}" for name, folder in folders.items()]) as running:
        yield running


def fill(**fields: Any) -> Callable[[Host], object]:
    return lambda host: host.cloze.FillMask(cloze_pb2.FillMaskRequest(**fields), timeout=CALL_SECONDS)


def extract(**fields: Any) -> Callable[[Host], object]:
    return lambda host: list(
        host.attention.ExtractAttention(attention_pb2.ExtractAttentionRequest(**fields), timeout=CALL_SECONDS)
    )


def sweep(objective: ablation_pb2.Objective) -> Callable[[Host], object]:
    request = ablation_pb2.SweepHeadsRequest(
        model="models/ill", objective=objective, mode=common_pb2.HeadIntervention.MODE_ZERO
    )
    return lambda host: list(host.ablation.SweepHeads(request, timeout=CALL_SECONDS))


def compress(step: Step) -> Callable[[Host], object]:
    request = model_pb2.CompressModelRequest(model="models/ill", model_id="made", steps=[step])
    return lambda host: list(host.models.CompressModel(request, timeout=CALL_SECONDS))


def benchmark(**fields: Any) -> Callable[[Host], object]:
    def call(host: Host) -> object:
        stub: Any = benchmark_pb2_grpc.BenchmarkServiceStub(host.channel)
        return list(stub.BenchmarkModels(benchmark_pb2.BenchmarkModelsRequest(**fields), timeout=CALL_SECONDS))

    return call


def infer(name: str, text: str) -> Callable[[Host], object]:
    contents = oip.InferTensorContents(bytes_contents=[text.encode()])
    tensor = oip.ModelInferRequest.InferInputTensor(name="text", datatype="BYTES", shape=[1, 1], contents=contents)
    request = oip.ModelInferRequest(model_name=name, inputs=[tensor])
    return lambda host: oip_grpc.GRPCInferenceServiceStub(host.channel).ModelInfer(request, timeout=CALL_SECONDS)


CALLS: dict[str, Callable[[Host], object]] = {
    "FillMask": fill(model="models/ill", texts=[MASKED]),
    "FillMask, candidates": fill(model="models/ill", texts=["The [MASK] sat."], candidates=["cat", "猫"]),
    "FillMask, reference texts": fill(
        model="models/ill", texts=["The [MASK] sat."], interventions=[MEAN], reference_texts=[BAD]
    ),
    "ExtractAttention, a pair": extract(model="models/ill", inputs=[common_pb2.TextInput(text=GOOD, text_pair=BAD)]),
    "Classify": lambda host: host.classification.Classify(
        classification_pb2.ClassifyRequest(model="models/sick", inputs=[common_pb2.TextInput(text=BAD)]), timeout=CALL_SECONDS
    ),
    "SweepHeads, answers": sweep(cloze_prompts([("The [MASK] sat.", ["猫"])])),
    "CompressModel, heads": compress(Step(heads=compression_pb2.HeadRemoval(share=0.2, texts=[BAD]))),
    "CompressModel, vocabulary": compress(Step(vocabulary=compression_pb2.VocabularyReduction(texts=[GOOD, BAD]))),
    "BenchmarkModels, timed texts": benchmark(
        models=["models/ill"], measurement=benchmark_pb2.Measurement(texts=[BAD], **BRIEF)
    ),
    "BenchmarkModels, agreement": benchmark(
        models=["models/bert", "models/ill"],
        agreement_texts=[BAD],
        measurement=benchmark_pb2.Measurement(lengths=[8], **BRIEF),
    ),
    "ModelInfer": infer("ill", BAD),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_tokenizer_that_fails_is_an_error_of_its_model(clinic: Host, name: str) -> None:
    with refused(grpc.StatusCode.FAILED_PRECONDITION) as failures:
        CALLS[name](clinic)
    model = "models/sick" if name == "Classify" else "models/ill"
    assert failures[0].info.reason == "TOKENIZER_FAILED"
    assert "Missing [UNK] token" in failures[0].message
    if not name.startswith("CompressModel, vocabulary"):
        assert model in failures[0].message
        assert failures[0].info.metadata["model"] == model


class PanicException(BaseException):
    """As a panic of Rust code reaches Python."""

    __module__ = "pyo3_runtime"


@pytest.mark.parametrize("error", [PanicException("index out of bounds"), OverflowError("can't convert"), KeyError("x")])
def test_whatever_a_tokenizers_library_raises(clinic: Host, monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    loaded = clinic.server.registry.find("models/bert").loaded
    assert loaded is not None

    class Failing:
        def __getattr__(self, name: str) -> Any:
            def fail(*_: object, **__: object) -> None:
                raise error

            return fail

    monkeypatch.setattr(loaded.tokenizer, "backend", Failing())
    for call in (fill(model="models/bert", texts=["The [MASK] sat."]), infer("bert", GOOD)):
        with refused(grpc.StatusCode.FAILED_PRECONDITION) as failures:
            call(clinic)
        assert failures[0].info.reason == "TOKENIZER_FAILED"
        assert "models/bert" in failures[0].message
        assert type(error).__name__ in failures[0].message
