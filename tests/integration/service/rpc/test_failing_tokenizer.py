"""A text that a hosted tokenizer fails on is an error of its model, in every call that tokenises; others are answered."""

import base64
import json
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest import mock

import grpc
import pytest
from bertscope.v1 import cloze_pb2, model_pb2
from bertscope_service.checkpoints import tokenizer_reading
from bertscope_service.contract import METHODS, Method, Work
from google.protobuf.message import Message

from tests.support.harness import CALL_SECONDS, Host, LoopThread, launched, refused
from tests.support.tiny import write_checkpoint
from tools.protos.samples import good

WITHOUT_TEXT = {"BenchmarkStudies"}
"""Methods that run models and read no text."""

TOKENISING = [
    method for method in METHODS.values() if method.work in (Work.INTERACTIVE, Work.BULK) and method.name not in WITHOUT_TEXT
]


class PanicException(BaseException):
    """As a panic of Rust code reaches Python."""

    __module__ = "pyo3_runtime"


ERRORS: tuple[BaseException, ...] = (PanicException("index out of bounds"), OverflowError("can't convert"), KeyError("x"))


class Failing:
    """A tokenizer of a library that raises whenever it reads a text."""

    def __init__(self, backend: Any, error: BaseException) -> None:
        self._backend, self._error = backend, error

    def __getattr__(self, name: str) -> Any:
        def fail(*_: object, **__: object) -> None:
            raise self._error

        return fail if name.startswith("encode") or name == "token_to_id" else getattr(self._backend, name)


@pytest.fixture
def requests(checkpoints: dict[str, Path]) -> Mapping[str, Message]:
    return good(checkpoints["bert"])


@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize("method", TOKENISING, ids=lambda method: method.name)
def test_whatever_a_tokenizers_library_raises(lab: Host, requests: Mapping[str, Message], method: Method) -> None:
    error = ERRORS[len(method.name) % len(ERRORS)]
    with ExitStack() as patches:
        for entry in lab.server.registry.entries():
            assert entry.loaded is not None
            own = vars(entry.loaded.tokenizer)
            # What is made of the backend meanwhile, and kept, is forgotten with it.
            patches.enter_context(mock.patch.dict(own, backend=Failing(own["backend"], error), _of_ascii=None))
        with refused(grpc.StatusCode.FAILED_PRECONDITION) as failures:
            lab.ask(method, requests[method.name].SerializeToString())
    assert failures[0].info.reason == "TOKENIZER_FAILED"
    assert failures[0].info.metadata["model"] in failures[0].message
    assert type(error).__name__ in failures[0].message


def test_a_vocabulary_without_an_entry_for_what_is_unknown(loop: LoopThread, tmp_path: Path) -> None:
    """Which its tokenizer finds out when it needs it."""
    folder = write_checkpoint("bert", tmp_path / "ill")
    path = folder / "tokenizer.json"
    written = json.loads(path.read_text(encoding="utf-8"))
    del written["model"]["vocab"]["[UNK]"]
    path.write_text(json.dumps(written), encoding="utf-8")
    with launched(loop, model=[f"ill={folder}"]) as host:
        assert host.cloze.FillMask(cloze_pb2.FillMaskRequest(texts=["The [MASK] sat."]), timeout=CALL_SECONDS).results
        with refused(grpc.StatusCode.FAILED_PRECONDITION) as failures:
            host.cloze.FillMask(cloze_pb2.FillMaskRequest(texts=["猫 sat. The [MASK] sat."]), timeout=CALL_SECONDS)
    assert (failures[0].info.reason, failures[0].info.metadata["model"]) == ("TOKENIZER_FAILED", "models/ill")
    assert "Missing [UNK] token" in failures[0].message


@pytest.mark.parametrize(("charsmap", "tried"), [(b"", True), (b"", False), (bytes(4), True), (bytes(4), False)])
def test_a_tokenizer_whose_library_panics(
    lab: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, charsmap: bytes, tried: bool
) -> None:
    """While it reads no map, and at the first text with an empty one: in a process of its own, and if not there, here."""
    if not tried:
        monkeypatch.setattr(tokenizer_reading, "check_growth", lambda *_: 1.0)
    folder = write_checkpoint("bert", tmp_path / "damaged")
    path = folder / "tokenizer.json"
    normalizer = {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(charsmap).decode()}
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | {"normalizer": normalizer}), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')
    before = lab.names()
    with refused(grpc.StatusCode.FAILED_PRECONDITION) as failures:
        list(lab.models.LoadModel(model_pb2.LoadModelRequest(model_id="damaged", source=str(folder)), timeout=CALL_SECONDS))
    assert failures[0].info.reason == "SOURCE_UNREADABLE"
    assert "PanicException" in failures[0].message
    assert lab.names() == before
    assert lab.cloze.FillMask(cloze_pb2.FillMaskRequest(texts=["The [MASK] sat."]), timeout=CALL_SECONDS).results


@pytest.mark.parametrize(
    "error", [PanicException("elsewhere"), BaseExceptionGroup("all", [GeneratorExit()])], ids=["panic", "group"]
)
def test_an_error_that_is_no_exception_has_a_status(lab: Host, monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Wherever a library raises it: grpc would send none, and the caller would wait for ever."""

    def read(*_: object) -> None:
        raise error

    monkeypatch.setattr(lab.server.registry, "_read", read)
    before = lab.names()
    for _ in range(2):  # its name is free again
        with refused(grpc.StatusCode.INTERNAL):
            list(lab.models.LoadModel(model_pb2.LoadModelRequest(model_id="ill", source="embedded"), timeout=CALL_SECONDS))
    assert lab.names() == before
