"""What every rpc of the contract owes its callers, whichever it is; a new one is asked for all of it by being declared."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

import grpc
import pytest
from bertscope.v1 import cloze_pb2
from bertscope_service.api import reply_memory
from bertscope_service.contract import METHODS, Method, Role, Work
from google.protobuf.message import Message

from tests.support.bearers import READER, bearing, line
from tests.support.harness import CALL_SECONDS, Failure, Host, LoopThread, code_of, held, launched, refused
from tests.support.patience import wait_until
from tools.protos.samples import SAID, SAMPLES, Refused, good, refused_requests

pytestmark = pytest.mark.usefixtures("brief")

each_method = pytest.mark.parametrize("method", METHODS.values(), ids=lambda method: method.name)
MODEL_FIELDS = ("model", "models", "model_name", "name")
"""Fields in which requests name their models."""

REFUSED = refused_requests()
UNREFUSABLE = {"ServerLive", "ServerReady", "ServerMetadata", "ModelReady"}
"""Nothing can be wrong with their requests."""

AT_ONCE = {method.name for method in METHODS.values() if method.work is Work.PROBE} | {
    *(method.name for method in METHODS.values() if method.work is Work.CONTROL and method.idempotent),
    "UnloadModel",
}
"""Methods that need no device, and so are answered while it is busy."""

WAITING = [method for method in METHODS.values() if method.name not in AT_ONCE]


@pytest.fixture
def requests(checkpoints: dict[str, Path]) -> Mapping[str, Message]:
    """A good request of each method."""
    return good(checkpoints["bert"])


@pytest.fixture
def as_it_was(lab: Host) -> Iterator[Host]:
    """A server that loses, at the end, what the test has left on it, and has nothing in its queue."""
    before = lab.names()
    yield lab
    wait_until(lambda: in_flight(lab) == 0, "no call runs")
    lab.unload_all_but(before)
    assert lab.names() == before


def in_flight(host: Host) -> float:
    """Calls of all methods that run."""
    return host.metric("bertscope_requests_in_flight")


def ended(host: Host, method: Method, *codes: str) -> float:
    return sum(host.metric("bertscope_requests_total", method=method.name, code=code) for code in codes)


def named(request: Message, name: str) -> bool:
    """Let a request name this model wherever it names any; whether it does."""
    fields = [field for field in MODEL_FIELDS if field in request.DESCRIPTOR.fields_by_name]
    for field in fields:
        if request.DESCRIPTOR.fields_by_name[field].is_repeated:
            getattr(request, field)[:] = [name]
        else:
            setattr(request, field, name)
    return bool(fields)


def test_every_method_has_its_sample() -> None:
    names = {method.name for method in METHODS.values()}
    assert names == {file.stem for file in SAMPLES.glob("*.json")}
    assert names - {bad.method.name for bad in REFUSED} == UNREFUSABLE


# Who may call, and what a request may be.


@pytest.fixture(scope="module")
def guarded(loop: LoopThread, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """A server without models that knows alice, who may read."""
    file = tmp_path_factory.mktemp("tokens") / "tokens"
    file.write_text(line("alice", "read", READER))
    with launched(loop, load=False, tokens_file=file) as host:
        yield host


@each_method
def test_a_role(guarded: Host, method: Method) -> None:
    """Its request is not read before its caller is known to have it."""
    unreadable = b"\xff"
    if method.role is Role.ANYONE:
        with refused(grpc.StatusCode.INVALID_ARGUMENT):
            guarded.ask(method, unreadable)
        return
    with refused(grpc.StatusCode.UNAUTHENTICATED) as failures:
        guarded.ask(method, unreadable)
    assert failures[0].info.reason == "TOKEN_MISSING"
    assert "authorization: Bearer TOKEN" in failures[0].message
    if method.role is Role.READ:
        with refused(grpc.StatusCode.INVALID_ARGUMENT) as failures:
            guarded.ask(method, unreadable, **bearing(READER))
        assert failures[0].info.reason == "MALFORMED_REQUEST"
        return
    with refused(grpc.StatusCode.PERMISSION_DENIED) as failures:
        guarded.ask(method, unreadable, **bearing(READER))
    assert failures[0].info.reason == "ROLE_REQUIRED"
    assert dict(failures[0].info.metadata) == {"role": "admin"}
    assert "alice" in failures[0].message


@pytest.mark.parametrize("bad", REFUSED, ids=lambda bad: f"{bad.method.name}: {bad.field or bad.reason}")
def test_a_bad_request_is_refused_by_its_field(lab: Host, bad: Refused) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        lab.ask(bad.method, bad.request.SerializeToString())
    failure = Failure(caught.value)
    assert failure.code not in (grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN)
    assert (failure.info.reason, failure.fields) == (bad.reason, [bad.field] if bad.field else [])
    assert "\n" not in failure.message


@each_method
def test_an_unknown_model_is_not_found(lab: Host, requests: Mapping[str, Message], method: Method) -> None:
    request = requests[method.name]
    if not named(request, "models/unknown"):
        assert method.whole_process or method.name == "ServerMetadata"
    elif method.work is Work.PROBE:
        assert lab.ask(method, request.SerializeToString()) == [method.response().SerializeToString()]  # it is not ready
    else:
        with refused(grpc.StatusCode.NOT_FOUND) as failures:
            lab.ask(method, request.SerializeToString())
        assert failures[0].info.reason == "MODEL_NOT_FOUND"


# A device that is busy.


class Call:
    """A call that runs in a thread until it is cancelled or ends by itself."""

    def __init__(self, host: Host, method: Method, request: Message, timeout: float) -> None:
        channel: Any = host.channel
        make = channel.unary_stream if method.streaming else channel.unary_unary
        start = make(method.path) if method.streaming else make(method.path).future
        self._call = start(request.SerializeToString(), timeout=timeout)
        self._wait = partial(list, self._call) if method.streaming else self._call.result
        self._reader = Thread(target=self._read)
        self._reader.start()
        self.cancel = self._call.cancel

    def _read(self) -> None:
        with suppress(grpc.RpcError, grpc.FutureCancelledError):
            self._wait()

    def code(self) -> grpc.StatusCode:
        """How it ended."""
        self._reader.join(CALL_SECONDS)
        return code_of(self._call)

    def reason(self) -> str:
        """The reason of the error that it ended with."""
        return Failure(self._call).info.reason


@pytest.fixture
def busy(as_it_was: Host) -> Iterator[Host]:
    """A server whose device is at a batch of another call."""
    with held(as_it_was) as gate:
        other = as_it_was.cloze.FillMask.future(cloze_pb2.FillMaskRequest(texts=[SAID]), timeout=3 * CALL_SECONDS)
        wait_until(lambda: gate.arrived, "the device is busy")
        yield as_it_was
        gate.let_through()
        assert other.result().results


def queued(host: Host) -> float:
    return host.metric("bertscope_queue_rows", device="cpu")


@pytest.mark.parametrize("method", [one for one in METHODS.values() if one.name in AT_ONCE], ids=lambda method: method.name)
def test_what_needs_no_device_is_answered_while_it_is_busy(busy: Host, requests: Mapping[str, Message], method: Method) -> None:
    if method.name == "UnloadModel":
        with refused(grpc.StatusCode.NOT_FOUND):
            busy.ask(method, requests[method.name].SerializeToString())
    else:
        assert busy.ask(method, requests[method.name].SerializeToString())


@pytest.mark.parametrize("method", WAITING, ids=lambda method: method.name)
def test_a_caller_that_leaves_takes_its_work_along(busy: Host, requests: Mapping[str, Message], method: Method) -> None:
    before, running = ended(busy, method, "CANCELLED"), in_flight(busy)
    call = Call(busy, method, requests[method.name], CALL_SECONDS)
    wait_until(lambda: in_flight(busy) == running + 1, "it runs")
    if method.work in (Work.INTERACTIVE, Work.BULK):
        wait_until(lambda: queued(busy) > 0, "its rows wait")
    call.cancel()
    assert call.code() is grpc.StatusCode.CANCELLED
    wait_until(lambda: ended(busy, method, "CANCELLED") == before + 1, "the server knows")
    wait_until(lambda: queued(busy) == 0, "its rows are gone")


def test_a_deadline_that_passes_in_the_queue_ends_each_call(busy: Host, requests: Mapping[str, Message]) -> None:
    """A server that a busy machine has slowed down may say before, by DEADLINE_UNREACHABLE, that the deadline is too short."""
    codes = ("CANCELLED", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED")
    before = [ended(busy, method, *codes) for method in WAITING]
    calls = [Call(busy, method, requests[method.name], 1.0) for method in WAITING]
    for method, count, call in zip(WAITING, before, calls, strict=True):
        assert call.code() is grpc.StatusCode.DEADLINE_EXCEEDED or call.reason() == "DEADLINE_UNREACHABLE", method.name
        wait_until(lambda method=method, count=count: ended(busy, method, *codes) == count + 1, f"{method.name} has ended")
    wait_until(lambda: queued(busy) == 0, "their rows are gone")


# Memory.


@each_method
def test_a_reply_needs_room(as_it_was: Host, requests: Mapping[str, Message], method: Method) -> None:
    """No reply is sent, nor kept, when replies that nobody has read take all of the memory for them."""
    if method.name == "UnloadModel":
        return  # its reply is empty
    with pytest.MonkeyPatch.context() as patch, refused(grpc.StatusCode.RESOURCE_EXHAUSTED) as failures:
        patch.setattr(reply_memory, "REPLIES_BYTES", 0)
        as_it_was.ask(method, requests[method.name].SerializeToString())
    assert failures[0].info.reason == "REPLIES_FULL"
    assert failures[0].retry is not None
