"""A real server on an event loop of its own, in a thread, so that tests can call it like any other process would."""

import asyncio
import math
import threading
from collections.abc import Container, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, TypeVar

import grpc
import numpy as np
from bertscope.v1 import attention_pb2 as attention
from bertscope.v1 import common_pb2, model_pb2
from bertscope_service.contract import Method
from bertscope_service.rpc.event_loop import new_event_loop
from bertscope_service.rpc.server import Server
from bertscope_service.settings import Settings
from google.rpc import error_details_pb2
from grpc_status import rpc_status
from numpy.typing import NDArray

from tests.support.patience import granted
from tests.support.stubs import Stubs

T = TypeVar("T")
CALL_SECONDS = granted(20.0)
"""The deadline of every call here; an answer takes milliseconds."""


class LoopThread:
    """An event loop that runs in a thread."""

    def __init__(self) -> None:
        self.loop = new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="test-server", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T], idle: float = 110) -> T:
        return self.submit(work).result(granted(idle))

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Begins the work, and returns what will hold its result."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(granted(10))


class Host(Stubs):
    """A running server, a channel to it, and its stubs."""

    def __init__(self, loop: LoopThread, server: Server, settings: Settings) -> None:
        self.loop = loop
        self.server = server
        self.settings = settings
        self.ports = loop.run(server.start())
        loop.run(server.host())
        self.target = f"127.0.0.1:{self.ports.grpc}"
        self.channel = self.connect()

    def connect(self) -> grpc.Channel:
        """A connection of its own: another client, as far as the server can tell."""
        options = [("grpc.max_receive_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
        return grpc.insecure_channel(self.target, options)

    def raw(self, method: str, data: bytes, *, package: str = "bertscope.v1") -> bytes:
        """Send bytes to a unary method as they are; the reply's bytes."""
        call: Any = self.channel.unary_unary(f"/{package}.{method}")
        return bytes(call(data, timeout=CALL_SECONDS))

    def ask(self, method: Method, data: bytes, **options: Any) -> list[bytes]:
        """Send bytes to any method; all of its replies' bytes."""
        make = self.channel.unary_stream if method.streaming else self.channel.unary_unary
        call: Any = make(method.path)
        found = call(data, **{"timeout": CALL_SECONDS, **options})
        return list(found) if method.streaming else [found]

    def names(self) -> list[str]:
        """The models that it hosts."""
        return [entry.name for entry in self.models.ListModels(model_pb2.ListModelsRequest(), timeout=CALL_SECONDS).models]

    def unload_all_but(self, names: Container[str]) -> None:
        """Unload what a test made."""
        for name in self.names():
            if name not in names:
                self.models.UnloadModel(model_pb2.UnloadModelRequest(name=name), timeout=CALL_SECONDS)

    def metric(self, name: str, **labels: str) -> float:
        """The sum of the samples that have these labels now, 0 if none was ever counted; no other metric is collected."""
        metrics = self.server.metrics.registry.restricted_registry([name]).collect()
        samples = (sample for metric in metrics for sample in metric.samples)
        return sum(sample.value for sample in samples if labels.items() <= sample.labels.items())

    def stop(self, grace_seconds: float | None = 0) -> None:
        self.loop.run(self.server.stop(grace_seconds or 0))
        self.channel.close()


@contextmanager
def launched(loop: LoopThread, *, load: bool = True, **settings: Any) -> Iterator[Host]:
    """A server on free ports, with its models loaded."""

    async def make() -> Server:
        return Server(chosen)

    settings.setdefault("runtime", "torch")  # an export takes seconds
    chosen = Settings(port=0, metrics_port=0, threads=1, **settings)
    host = Host(loop, loop.run(make()), chosen)
    try:
        if load:
            loop.run(host.server.load_models())
        yield host
    finally:
        host.stop()


class Held:
    """Keeps a model's batches from running until they are let through."""

    def __init__(self) -> None:
        self.arrived = 0
        self._permits: float = 0
        self._changed = threading.Condition()

    def let_through(self, batches: float = math.inf) -> None:
        with self._changed:
            self._permits += batches
            self._changed.notify_all()

    def hold(self) -> None:
        """Lets nothing more through."""
        with self._changed:
            self._permits = 0

    def wait(self) -> None:
        with self._changed:
            self.arrived += 1
            assert self._changed.wait_for(lambda: self._permits > 0, timeout=granted(60))
            self._permits -= 1


@contextmanager
def held(host: Host, model: str = "") -> Iterator[Held]:
    """Every batch of a model waits in its encoder, on the worker's thread, until it is let through."""
    loaded = host.server.registry.find(model).loaded
    assert loaded is not None
    encoder, gate = loaded.encoder, Held()

    def advance(*args: Any, **options: Any) -> None:
        gate.wait()
        type(encoder).advance(encoder, *args, **options)

    vars(encoder)["advance"] = advance
    try:
        yield gate
    finally:
        del vars(encoder)["advance"]
        gate.let_through()


def interactive_rows_wait(host: Host) -> bool:
    """Whether an interactive row waits for a device."""
    worker = next(iter(host.server.engine._workers.values()))
    return bool(next(iter(worker._queue._queues.values())))


def code_of(error: Any) -> grpc.StatusCode:
    code = error.code()
    assert isinstance(code, grpc.StatusCode)
    return code


class Failure:
    """A call's error with its google.rpc details; it checks what holds for every error of ours."""

    def __init__(self, error: Any) -> None:
        status = rpc_status.from_call(error)
        assert status is not None, f"no google.rpc.Status: {error}"
        self.code = code_of(error)
        self.message: str = status.message
        assert error.details() == status.message
        details: dict[str, Any] = {}
        for packed in status.details:
            kind = packed.TypeName().removeprefix("google.rpc.")
            details[kind] = getattr(error_details_pb2, kind)()
            assert packed.Unpack(details[kind])
        assert len(details) == len(status.details)
        self.info = details.pop("ErrorInfo")
        assert self.info.domain == "bertscope"
        assert self.info.reason
        assert self.info.reason == self.info.reason.upper()
        self.retry = details.pop("RetryInfo", None)
        bad = details.pop("BadRequest", None)
        assert not details
        assert (bad is not None) == (self.code is grpc.StatusCode.INVALID_ARGUMENT)
        self.fields: list[str] = [] if bad is None else [violation.field for violation in bad.field_violations]


@contextmanager
def refused(code: grpc.StatusCode) -> Iterator[list[Failure]]:
    """Expects a call of ours to fail so; the failure is in the list afterwards."""
    failures: list[Failure] = []
    try:
        yield failures
    except grpc.RpcError as error:
        failures.append(Failure(error))
        assert failures[0].code is code, f"{failures[0].code}: {failures[0].message}"
    else:
        raise AssertionError(f"the call was answered; {code} was expected")


class Maps:
    """The tensor of one text, put together from its header and chunks, which must cover it exactly once."""

    def __init__(self, header: Any) -> None:
        self.header = header
        tensor = announced(header)
        kind = {common_pb2.DATA_TYPE_FLOAT32: "<f4", common_pb2.DATA_TYPE_FLOAT16: "<f2"}[tensor.dtype]
        self.values: NDArray[Any] = np.zeros(tensor.shape, dtype=kind)
        self._bytes = self.values.reshape(-1).view(np.uint8)
        self._written = np.zeros(self._bytes.shape, dtype=np.int32)

    def write(self, chunk: Any) -> None:
        assert 1 <= len(chunk.data) <= 1024 * 1024
        place = slice(chunk.offset, chunk.offset + len(chunk.data))
        assert place.stop <= len(self._bytes)
        self._bytes[place] = np.frombuffer(chunk.data, dtype=np.uint8)
        self._written[place] += 1

    def check(self) -> None:
        assert (self._written == 1).all()


def announced(header: Any) -> common_pb2.Tensor:
    """The tensor that a header announces."""
    return header.attention if isinstance(header, attention.AttentionHeader) else header.states


def read_maps(responses: Sequence[Any] | Iterator[Any]) -> list[Maps]:
    """All texts of a stream: headers in order, each before its chunks."""
    texts: list[Maps] = []
    for response in responses:
        if response.WhichOneof("event") == "header":
            assert response.header.input_index == len(texts)
            assert not announced(response.header).data
            texts.append(Maps(response.header))
        else:
            texts[response.chunk.input_index].write(response.chunk)
    for text in texts:
        text.check()
    return texts
