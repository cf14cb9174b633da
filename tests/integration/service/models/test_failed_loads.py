"""Loads that fail, of folders that lie or are hostile: whoever asks is told, and nothing of them stays."""

import gc
import shutil
import weakref
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import grpc
import pytest
from bertscope.v1 import ablation_pb2, cloze_pb2, common_pb2, compression_pb2, model_pb2
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.encoders.torch.encoder import TorchEncoder
from bertscope_service.encoders.torch.loading import load_encoder
from bertscope_service.errors import FailedPrecondition
from bertscope_service.models import hosted, loading, own_thread, registry, runtimes

from tests.support.harness import CALL_SECONDS, Failure, Host, LoopThread, launched, refused
from tests.support.lies import FEW, Lie
from tests.support.patience import wait_until

LOADS = 5


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[weakref.ref[Any]]]:
    """The modules of all encoders that were made; cycles among objects are not collected meanwhile."""
    references: list[weakref.ref[Any]] = []
    make = load_encoder

    def load(*arguments: Any, **options: Any) -> TorchEncoder:
        encoder = make(*arguments, **options)
        references.extend((weakref.ref(encoder), weakref.ref(encoder.architecture.model)))
        return encoder

    monkeypatch.setattr(runtimes, "load_encoder", load)
    gc.collect()
    gc.disable()
    try:
        yield references
    finally:
        gc.enable()


def fail(*_: object, **__: object) -> Any:
    raise FailedPrecondition("it fails late", "SOURCE_UNREADABLE")


def break_down(*_: object, **__: object) -> Any:
    raise RuntimeError("a bug")


PLACES: dict[str, tuple[Any, str]] = {
    "the tokenizer": (TextTokenizer, "load"),
    "the tokenizer's check": (loading, "check_tokenizer"),
    "the first run": (registry.Registry, "_first_run"),
    "what a model is made of": (loading, "LoadedModel"),
}


@pytest.mark.slow
@pytest.mark.parametrize(("place", "how"), [("the tokenizer", break_down), *((place, fail) for place in PLACES)])
def test_what_a_failed_load_made_is_freed(
    launch: Callable[..., Host],
    checkpoints: dict[str, Path],
    monkeypatch: pytest.MonkeyPatch,
    made: list[weakref.ref[Any]],
    place: str,
    how: Callable[..., Any],
) -> None:
    host = launch(model=[f"good={checkpoints['bert']}"])
    made.clear()
    owner, name = PLACES[place]
    monkeypatch.setattr(owner, name, how)
    for _ in range(LOADS):
        with pytest.raises(grpc.RpcError) as caught:
            list(
                host.models.LoadModel(
                    model_pb2.LoadModelRequest(model_id="bad", source=str(checkpoints["bert"])), timeout=CALL_SECONDS
                )
            )
        assert Failure(caught.value).code in (grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.INTERNAL)
    assert len(made) == 2 * LOADS
    wait_until(lambda: not any(reference() for reference in made), "all of them are freed")


def test_what_a_failed_twin_made_is_freed(checkpoints: dict[str, Path], made: list[weakref.ref[Any]]) -> None:
    """RankHeads on a model run by ONNX Runtime reads the checkpoint once more."""
    source = loading.locate(str(checkpoints["bert"]), "", lambda _: None)
    asked = runtimes.RuntimeRequest("onnx", "fp32", loading.choose_device("cpu"))
    encoder = runtimes.gradient_encoder(source, source.digest(lambda _: None), asked)
    assert len(made) == 2
    del encoder
    assert not any(reference() for reference in made)


@pytest.mark.slow
def test_freed_memory_goes_back_to_the_system(
    launch: Callable[..., Host], checkpoints: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = launch(model=[f"good={checkpoints['bert']}"])
    given: list[None] = []
    for module in (own_thread, hosted):
        monkeypatch.setattr(module, "give_back", lambda: given.append(None))
    with pytest.raises(grpc.RpcError):
        list(host.models.LoadModel(model_pb2.LoadModelRequest(model_id="bad", source=str(tmp_path)), timeout=CALL_SECONDS))
    assert len(given) == 1
    list(
        host.models.LoadModel(
            model_pb2.LoadModelRequest(model_id="bert", source=str(checkpoints["bert"])), timeout=CALL_SECONDS
        )
    )
    assert len(given) == 2
    host.models.UnloadModel(model_pb2.UnloadModelRequest(name="models/bert"), timeout=CALL_SECONDS)
    wait_until(lambda: len(given) == 3, "it is given back")


GOOD = cloze_pb2.FillMaskRequest(model="models/bert", texts=["The [MASK] sat."])
LATER = [lie for lie in FEW if not lie.in_weights][::4]
"""Some of what may change while a model is hosted: of its weights the server knows the digest."""


@pytest.fixture(scope="module")
def court(loop: LoopThread, checkpoints: dict[str, Path]) -> Iterator[Host]:
    """Hosts models/bert, and what tests load."""
    with launched(loop, model=[f"bert={checkpoints['bert']}"]) as running:
        yield running
        assert running.cloze.FillMask(GOOD, timeout=CALL_SECONDS).results
        names = [model.name for model in running.models.ListModels(model_pb2.ListModelsRequest()).models]
        assert names == ["models/bert"]


@pytest.fixture
def copy(checkpoint: Callable[[str], Path], tmp_path: Path) -> Callable[[Lie], Path]:
    """A good folder that a lie is for."""

    def made(lie: Lie) -> Path:
        return Path(shutil.copytree(checkpoint(lie.architecture), tmp_path / "lying"))

    return made


def load(host: Host, folder: Path) -> None:
    request = model_pb2.LoadModelRequest(model_id="lying", source=str(folder))
    list(host.models.LoadModel(request, timeout=CALL_SECONDS))


@pytest.mark.slow
@pytest.mark.parametrize("lie", LATER, ids=lambda lie: lie.name)
def test_what_a_hosted_model_is_made_into(court: Host, copy: Callable[[Lie], Path], lie: Lie) -> None:
    """CompressModel and PruneHeads read the checkpoint once more, and RankHeads does where ONNX Runtime runs the model."""
    folder = copy(lie)
    load(court, folder)
    try:
        source = loading.locate(str(folder), "", lambda _: None)
        digest = source.digest(lambda _: None)
        lie.tell(folder)
        step = compression_pb2.CompressionStep(half=compression_pb2.HalfPrecision(precision=common_pb2.PRECISION_BFLOAT16))
        compress = model_pb2.CompressModelRequest(model="models/lying", model_id="made", steps=[step])
        with refused(grpc.StatusCode.FAILED_PRECONDITION) as failures:
            list(court.models.CompressModel(compress, timeout=CALL_SECONDS))
        assert all(word in failures[0].message for word in lie.words)
        if lie.architecture != "albert":
            heads = [common_pb2.LayerHeads(layer=0, heads=[0])]
            prune = ablation_pb2.PruneHeadsRequest(model="models/lying", model_id="made", heads=heads)
            with refused(grpc.StatusCode.FAILED_PRECONDITION) as failures:
                court.ablation.PruneHeads(prune, timeout=CALL_SECONDS)
            assert all(word in failures[0].message for word in lie.words)
        with pytest.raises(FailedPrecondition) as caught:
            runtimes.gradient_encoder(source, digest, runtimes.RuntimeRequest("onnx", "fp32", loading.choose_device("cpu")))
        assert all(word in caught.value.message for word in lie.words)
    finally:
        court.models.UnloadModel(model_pb2.UnloadModelRequest(name="models/lying"), timeout=CALL_SECONDS)


Code = grpc.StatusCode


WORDS = ["".join(letters) for letters in product("abcdefghij", repeat=3)]


@pytest.mark.parametrize(
    ("texts", "candidates", "reason"),
    [
        (20, WORDS, "TOO_MANY_PREDICTIONS"),
        (3, [f"{'cat ' * 200}{word}" for word in WORDS], "TEXT_TOO_LONG"),
        (3, [f"{'cat ' * 300}{word}" for word in WORDS], "CANDIDATE_TOO_LARGE"),
    ],
    ids=["many", "long", "too long"],
)
def test_too_much_work_is_refused_before_it_is_done(host: Host, texts: int, candidates: list[str], reason: str) -> None:
    request = cloze_pb2.FillMaskRequest(texts=["[MASK]" * 60] * texts, candidates=candidates)
    with refused(Code.INVALID_ARGUMENT) as failures:
        host.cloze.FillMask(request, timeout=3 * CALL_SECONDS)
    assert failures[0].info.reason == reason


@pytest.mark.parametrize(
    ("one", "field"), [(b"\x2a\x00", "interventions[0].mode"), (b"\x2a\x02\x18\x01", "interventions")], ids=["empty", "zero"]
)
def test_a_flood_of_interventions(host: Host, one: bytes, field: str) -> None:
    """A quarter of a million of them, each of two bytes or four."""
    with refused(Code.INVALID_ARGUMENT) as failures:
        host.raw("ClozeService/FillMask", b"\x12\x06[MASK]" + one * 250_000)
    assert failures[0].fields == [field]
