"""What a failed load made is freed at once: by counting references, not by a collector that may come later."""

import gc
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from bertscope.v1 import model_pb2
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.encoders.torch.encoder import TorchEncoder
from bertscope_service.encoders.torch.loading import load_encoder
from bertscope_service.errors import FailedPrecondition
from bertscope_service.models import hosted, loading, own_thread, registry, runtimes

from tests.support.harness import CALL_SECONDS, Failure, Host
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
