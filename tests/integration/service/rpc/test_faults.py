"""What fails inside a server is a status with an id and without its text: encoders, streams, and libraries of tokenizers."""

import base64
import logging
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest import mock

import grpc
import pytest
from bertscope.v1 import attention_pb2 as attention
from bertscope.v1 import cloze_pb2, common_pb2, model_pb2
from bertscope.v1 import cloze_pb2 as cloze
from bertscope_service.checkpoints import tokenizer_reading
from bertscope_service.contract import METHODS, Method, Work
from google.protobuf.message import Message

from tests.support.edited_files import edit, say
from tests.support.harness import CALL_SECONDS, Failure, Host, LoopThread, held, launched, read_maps, refused
from tests.support.patience import wait_until
from tests.support.tiny import write_checkpoint
from tools.protos.samples import good

GOOD = "The [MASK] sat."
TOKENS = 6
"""[CLS] the [MASK] sat . [SEP]"""


def ask(texts: int = 1, **fields: Any) -> cloze.FillMaskRequest:
    return cloze.FillMaskRequest(texts=[GOOD] * texts, **fields)


def maps_of(texts: int, **fields: Any) -> attention.ExtractAttentionRequest:
    inputs = [common_pb2.TextInput(text="the cat sat on the mat and " * 7) for _ in range(texts)]
    return attention.ExtractAttentionRequest(inputs=inputs, **fields)


def waiting(host: Host) -> float:
    return host.metric("bertscope_queue_rows", device="cpu")


def test_a_full_queue_turns_calls_away_with_a_delay_and_answers_the_others(
    launch: Callable[..., Host], check_alive: Callable[[Host], None]
) -> None:
    host = launch(queue_tokens=4 * TOKENS)
    with held(host) as gate:
        running = host.cloze.FillMask.future(ask(), timeout=CALL_SECONDS)
        wait_until(lambda: gate.arrived, "the worker is busy")
        queued = [host.cloze.FillMask.future(ask(2, top_k=k), timeout=CALL_SECONDS) for k in (1, 2)]
        wait_until(lambda: waiting(host) == 4, "the queue is full")
        for _ in range(3):
            with refused(grpc.StatusCode.RESOURCE_EXHAUSTED) as failures:
                host.cloze.FillMask(ask(), timeout=CALL_SECONDS)
            delay = failures[0].retry.retry_delay.ToTimedelta().total_seconds()
            assert 0.05 <= delay <= 30
            assert failures[0].info.reason == "QUEUE_FULL"
            assert f"{4 * TOKENS} tokens wait" in failures[0].message
            assert "try again" in failures[0].message
        assert host.metric("bertscope_rejected_total", reason="queue_full") == 3
        with refused(grpc.StatusCode.RESOURCE_EXHAUSTED):
            list(host.attention.ExtractAttention(maps_of(3), timeout=CALL_SECONDS))
        gate.let_through()
        assert len(running.result().results) == 1
        for k, call in enumerate(queued, start=1):
            assert [len(result.masks[0].predictions) for result in call.result().results] == [k, k]
    check_alive(host)


def test_a_request_larger_than_the_queue_is_answered_when_nothing_waits(launch: Callable[..., Host]) -> None:
    host = launch(queue_tokens=10)
    assert len(host.cloze.FillMask(ask(50), timeout=CALL_SECONDS).results) == 50
    assert len(read_maps(host.attention.ExtractAttention(maps_of(9), timeout=CALL_SECONDS))) == 9


def test_an_exception_in_an_encoder_is_internal_with_an_id_and_without_its_text(
    host: Host, check_alive: Callable[[Host], None], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    loaded = host.server.registry.find("models/bert").loaded
    assert loaded is not None

    def explode(*_: Any, **__: Any) -> None:
        raise RuntimeError("the inner text of a bug")

    vars(loaded.encoder)["advance"] = explode
    try:
        for ask_it in (
            lambda: host.cloze.FillMask(ask(), timeout=CALL_SECONDS, metadata=(("x-request-id", "id-of-the-caller"),)),
            lambda: list(host.attention.ExtractAttention(maps_of(3), timeout=CALL_SECONDS)),
        ):
            with refused(grpc.StatusCode.INTERNAL) as failures:
                ask_it()
            request_id = failures[0].info.metadata["request_id"]
            assert request_id in failures[0].message
            assert "inner" not in failures[0].message
            traces = [
                record for record in caplog.records if getattr(record, "request_id", "") == request_id and record.exc_info
            ]
            assert len(traces) == 1
            assert "the inner text of a bug" in caplog.text
    finally:
        del vars(loaded.encoder)["advance"]
    assert "id-of-the-caller" in {getattr(record, "request_id", "") for record in caplog.records if record.exc_info}
    check_alive(host)
    assert len(read_maps(host.attention.ExtractAttention(maps_of(2), timeout=CALL_SECONDS))) == 2


def test_a_failure_in_the_middle_of_a_stream_is_a_status(host: Host, check_alive: Callable[[Host], None]) -> None:
    loaded = host.server.registry.find("models/bert").loaded
    assert loaded is not None
    encoder: Any = loaded.encoder
    seen: list[int] = []

    def advance(*args: Any, **options: Any) -> None:
        seen.append(1)
        if len(seen) > 2:
            raise RuntimeError("a bug in the third text")
        type(encoder).advance(encoder, *args, **options)

    # Texts of one length would share a batch.
    texts = ["the cat " * (1 + 12 * number) for number in range(3)]
    request = attention.ExtractAttentionRequest(inputs=[common_pb2.TextInput(text=text) for text in texts])
    vars(encoder)["advance"] = advance
    received: list[attention.ExtractAttentionResponse] = []
    try:
        received.extend(host.attention.ExtractAttention(request, timeout=CALL_SECONDS))
    except grpc.RpcError as error:
        assert Failure(error).code is grpc.StatusCode.INTERNAL
    else:
        pytest.fail("the stream ended well")
    finally:
        del vars(encoder)["advance"]
    assert [maps.header.input_index for maps in read_maps(received)] == [0, 1]
    check_alive(host)


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
    edit(folder / "tokenizer.json", lambda written: written["model"]["vocab"].__delitem__("[UNK]"))
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
    normalizer = {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(charsmap).decode()}
    say(folder / "tokenizer.json", normalizer=normalizer)
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
