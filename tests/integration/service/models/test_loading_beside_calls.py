"""Loads, compressions, prunings and rankings beside running calls: nothing that other threads see changes, and every answer is
what it is without them."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from bertscope.v1 import ablation_pb2 as ablation
from bertscope.v1 import cloze_pb2 as cloze
from bertscope.v1 import common_pb2 as common
from bertscope.v1 import compression_pb2 as compression
from bertscope.v1 import distillation_pb2 as distillation
from bertscope.v1 import model_pb2 as model
from bertscope_service.contract import METHODS, Method, Work
from numpy.typing import NDArray

from tests.support.exports import load_exported
from tests.support.family import FAMILY
from tests.support.harness import Host, LoopThread, code_of, launched
from tests.support.patience import granted, wait_until
from tests.support.process_state import unchanged
from tests.support.reply_numbers import numbers_of
from tests.support.sweeps import masked_lm, matrix, text_input
from tests.support.tiny import ARCHITECTURES, SENTENCES, write_checkpoint
from tools.protos.samples import good

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
SECONDS = granted(300)
CALLERS = 16
"""At once: with one for each question, what goes on beside them hardly gets a turn."""

TEXTS = ("Paris is the capital of [MASK].", "The [MASK] sat.", "She plays the [MASK] in the garden near the old house.")
PRECISIONS = {"fp32": common.PRECISION_FLOAT32, "fp16": common.PRECISION_FLOAT16, "bf16": common.PRECISION_BFLOAT16}
RUNTIMES = ("models/graphs", "models/weights")
Values = NDArray[np.floating]
Step = compression.CompressionStep


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("loading")
    return {name: write_checkpoint(name, root / name) for name in FAMILY}


@pytest.fixture(scope="module")
def host(
    loop: LoopThread, folders: dict[str, Path], checkpoints: dict[str, Path], sorters: dict[str, Path], export_cache: Path
) -> Iterator[Host]:
    """One model run by ONNX Runtime, as the first, and one by PyTorch, as those that samples name."""
    for name in ("bert", "electra"):
        load_exported(folders[name], export_cache)
    with launched(loop, model=[f"graphs={folders['bert']}"], runtime="onnx", cache_folder=export_cache) as running:
        load(running, "weights", checkpoints["bert"])
        for name, folder in ({"headless": checkpoints["headless"]} | sorters).items():
            load(running, name, folder)
        yield running


def load(host: Host, name: str, source: Path, precision: str = "fp32", runtime: int = common.RUNTIME_TORCH) -> model.Model:
    request = model.LoadModelRequest(model_id=name, source=str(source), precision=PRECISIONS[precision], runtime=runtime)
    *_, last = host.models.LoadModel(request, timeout=SECONDS)
    return last.model


def unload(host: Host, name: str) -> None:
    host.models.UnloadModel(model.UnloadModelRequest(name=f"models/{name}"), timeout=SECONDS)


def fill(host: Host, name: str) -> Values:
    request = cloze.FillMaskRequest(model=f"models/{name}", texts=TEXTS, top_k=5)
    return numbers_of([host.cloze.FillMask(request, timeout=SECONDS)])


def rank(host: Host, name: str) -> Values:
    request = ablation.RankHeadsRequest(model=f"models/{name}", objective=masked_lm(SENTENCES[:3]))
    return matrix(host.ablation.RankHeads(request, timeout=SECONDS).importance)


def questions(folder: Path) -> dict[str, tuple[Method, bytes]]:
    """Returns each method that runs a model, and changes nothing, with its request: of the model that its sample names, or of
    one by each runtime."""
    found = {}
    for method in METHODS.values():
        if method.work in (Work.INTERACTIVE, Work.BULK) and method.idempotent:
            request: Any = good(folder)[method.name]
            field = "model_name" if "model_name" in request.DESCRIPTOR.fields_by_name else "model"
            given = getattr(request, field)
            for name in (given,) if given not in ("", "bert") else RUNTIMES:
                setattr(request, field, name)
                found[f"{method.name} of {name}"] = method, request.SerializeToString()
    return found


def ask(host: Host, method: Method, request: bytes) -> Values:
    return numbers_of(map(method.response.FromString, host.ask(method, request, timeout=SECONDS)))


@contextmanager
def asked_meanwhile(host: Host) -> Iterator[None]:
    """Callers of both runtimes, who ask all questions in turn, and whose answers must be what they were before."""
    asked = questions(Path("/nowhere"))
    expected = {what: ask(host, *question) for what, question in asked.items()}
    stopped, done = threading.Event(), []

    def call(whats: list[str]) -> None:
        while not stopped.is_set():
            for what in whats:
                # The relative part is for sums over texts.
                np.testing.assert_allclose(ask(host, *asked[what]), expected[what], atol=2e-5, rtol=1e-4, err_msg=what)
                done.append(what)

    with ThreadPoolExecutor(CALLERS) as threads:
        calls = [threads.submit(call, list(asked)[first::CALLERS]) for first in range(CALLERS)]
        try:
            yield
        finally:
            stopped.set()
        for each in calls:
            each.result()
    assert len(done) > len(asked)


def compress(host: Host, name: str, *steps: Step, folder: Path | None = None) -> model.Model:
    request = model.CompressModelRequest(model="models/weights", model_id=name, steps=steps, folder=str(folder or ""))
    *_, last = host.models.CompressModel(request, timeout=SECONDS)
    return last.model


STEPS = {
    "fp16": (Step(half=compression.HalfPrecision(precision=common.PRECISION_FLOAT16)),),
    "int8": (Step(int8=compression.Int8Quantization()),),
    "dictionary": (Step(weight_only=compression.WeightOnlyQuantization(bits=4)),),
    "layers": (Step(layers=compression.LayerSelection(layers=[0, 2])),),
    "units": (
        Step(
            feed_forward=compression.FeedForwardRemoval(
                share=0.25, criterion=compression.FeedForwardRemoval.CRITERION_IMPORTANCE, texts=SENTENCES[:2]
            )
        ),
    ),
    "magnitude": (Step(magnitude=compression.MagnitudePruning(share=0.5)),),
    "tokens": (Step(tokens=compression.TokenElimination(kept_shares=[1, 0.75, 0.5, 0.5])),),
    "vocabulary": (Step(vocabulary=compression.VocabularyReduction(texts=SENTENCES)),),
}


@pytest.mark.parametrize("precision", PRECISIONS)
def test_loads_change_nothing_that_others_see(
    host: Host, folders: dict[str, Path], precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of every architecture in float32, of some in half precision."""
    with asked_meanwhile(host), unchanged(monkeypatch) as looks:
        for name in FAMILY if precision == "fp32" else ARCHITECTURES:
            load(host, name, folders[name], precision)
            fill(host, name)
            unload(host, name)
    assert looks() > 10


def test_changes_of_models_change_nothing_that_others_see(host: Host, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Compressions of all kinds, exports, prunings and rankings."""
    heads = [common.LayerHeads(layer=1, heads=[0, 2])]
    with asked_meanwhile(host), unchanged(monkeypatch) as looks:
        for name, steps in STEPS.items():
            compress(host, "small", *steps, folder=tmp_path / name)
            unload(host, "small")
            load(host, "small", tmp_path / name)
            unload(host, "small")
        compress(host, "small", Step(onnx=compression.OnnxExport()), Step(int8=compression.Int8Quantization()))
        unload(host, "small")
        for model_name in RUNTIMES:
            request = ablation.PruneHeadsRequest(model=model_name, model_id="pruned", heads=heads)
            host.ablation.PruneHeads(request, timeout=SECONDS)
            rank(host, model_name.removeprefix("models/"))
            unload(host, "pruned")
    assert looks() > 10


def test_distillations_change_nothing_that_others_see(host: Host, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With the rounding of integers, which replaces modules of the student."""
    texts = [distillation.DistillationText(input=text_input(text)) for text in SENTENCES[1:5]]
    request = distillation.DistillModelRequest(
        model="models/weights",
        model_id="small",
        folder=str(tmp_path / "small"),
        steps=[*STEPS["layers"], *STEPS["int8"]],
        train=texts,
        dev=texts,
        test=texts,
        objective=distillation.DistillationObjective(attention=1),
        epochs=1,
        evaluations=1,
    )
    with asked_meanwhile(host), unchanged(monkeypatch) as looks:
        *_, last = host.distillation.DistillModel(request, timeout=SECONDS)
        assert last.model.name == "models/small"
        unload(host, "small")
    assert looks() > 10


def test_callers_that_leave_change_no_answer(host: Host) -> None:
    """Their rows share batches with those of callers that stay."""
    codes = set()
    questions_of_all = list(questions(Path("/nowhere")).values())
    channel: Any = host.channel
    with asked_meanwhile(host):
        for number in range(2):
            for method, request in questions_of_all:
                make = channel.unary_stream if method.streaming else channel.unary_unary
                start = make(method.path) if method.streaming else make(method.path).future
                call = start(request, timeout=SECONDS)
                if number:
                    fill(host, "weights")  # meanwhile, it waits, runs or ends
                call.cancel()
                codes.add(code_of(call))
    assert codes <= {grpc.StatusCode.OK, grpc.StatusCode.CANCELLED}
    assert grpc.StatusCode.CANCELLED in codes
    wait_until(lambda: host.metric("bertscope_queue_rows", device="cpu") == 0, "their rows are gone")
