"""The service config that clients in other languages load: gRPC takes it, and does what it says."""

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import bertscope
import grpc
import pytest
from bertscope.rpc.channel import channel_options, service_config
from bertscope_service.contract import METHODS, Method, Work

from tests.support.patience import granted

CONFIG = (Path(__file__).parents[2] / "protos/bertscope/v1/bertscope_grpc_service_config.json").read_text(encoding="utf-8")
ENTRIES = json.loads(CONFIG)["methodConfig"]


class Failing(grpc.GenericRpcHandler):
    """Refuses the first call, or keeps all of them waiting."""

    def __init__(self) -> None:
        self.calls = 0
        self.waiting = False

    def service(self, details: grpc.HandlerCallDetails) -> Any:
        def answer(request: Any, context: grpc.ServicerContext) -> bytes:
            self.calls += 1
            if self.waiting:
                over = threading.Event()
                if context.add_callback(over.set):
                    assert over.wait(granted(60))
            elif self.calls == 1:
                context.abort(grpc.StatusCode.UNAVAILABLE, "not now")
            return b""

        def stream(request: Any, context: grpc.ServicerContext) -> Iterator[bytes]:
            yield answer(request, context)

        streaming = METHODS[details.method].streaming
        return grpc.unary_stream_rpc_method_handler(stream) if streaming else grpc.unary_unary_rpc_method_handler(answer)


@contextmanager
def served(config: str) -> Iterator[tuple[Failing, grpc.Channel]]:
    """A server, and a channel to it that has loaded a config."""
    handler = Failing()
    running = grpc.server(ThreadPoolExecutor(2), handlers=[handler])
    port = running.add_insecure_port("127.0.0.1:0")
    running.start()
    with grpc.insecure_channel(f"127.0.0.1:{port}", [("grpc.service_config", config)]) as channel:
        yield handler, channel
    running.stop(0).wait()


def ask(channel: grpc.Channel, method: Method) -> None:
    request: Any = b""
    if method.streaming:
        list(channel.unary_stream(method.path)(request))
    else:
        channel.unary_unary(method.path)(request)


def limit(method: Method) -> str:
    """The time that the config lets a call take; none if it says nothing of it."""
    found = [one.get("timeout", "") for one in ENTRIES if {"service": method.service, "method": method.name} in one["name"]]
    assert len(found) == method.idempotent
    return found[0] if found else ""


@pytest.mark.parametrize("name", ["FillMask", "ExtractAttention", "UnloadModel", "LoadModel"])
def test_only_what_reads_is_sent_again(name: str) -> None:
    """One message and a stream of each kind; below, the config is seen to name all methods that read, and no other."""
    (method,) = (one for one in METHODS.values() if one.name == name)
    with served(CONFIG) as (handler, channel):
        if method.idempotent:
            ask(channel, method)
        else:
            with pytest.raises(grpc.RpcError, match="not now"):
                ask(channel, method)
        assert handler.calls == 1 + method.idempotent


def test_only_what_is_answered_once_and_soon_has_a_limit() -> None:
    for method in METHODS.values():
        soon = method.work in (Work.PROBE, Work.INTERACTIVE) or (method.work is Work.CONTROL and method.idempotent)
        assert limit(method) == ("" if method.streaming or not soon else "5s" if method.work is Work.PROBE else "60s"), method


@pytest.mark.parametrize("seconds", ["5s", "60s"])
def test_a_call_past_its_limit_is_over(seconds: str) -> None:
    method = next(one for one in METHODS.values() if limit(one) == seconds)
    with served(CONFIG.replace(f'"timeout": "{seconds}"', '"timeout": "0.2s"')) as (handler, channel):
        handler.waiting = True
        with pytest.raises(grpc.RpcError) as failed:
            ask(channel, method)
    assert failed.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED


def test_it_tries_again_as_the_python_client_does() -> None:
    (entry,) = json.loads(service_config(bertscope.Retries()))["methodConfig"]
    for policy in (one["retryPolicy"] for one in ENTRIES):
        assert policy.keys() == entry["retryPolicy"].keys()
        for name, value in policy.items():
            found = entry["retryPolicy"][name]
            assert float(found[:-1]) == float(value[:-1]) if name.endswith("Backoff") else found == value
    named = {(one["service"], one["method"]) for one in entry["name"]}
    assert named == {
        (one["service"], one["method"]) for part in ENTRIES for one in part["name"] if "bertscope" in one["service"]
    }


def test_a_python_client_gives_a_silent_connection_up_later_than_grpc_would() -> None:
    """A server that gets no processor for a minute loses no call."""
    options = dict(channel_options((), bertscope.Retries()))
    assert options["grpc.http2.ping_timeout_ms"] > 70_000
    assert "grpc.keepalive_timeout_ms" not in options


def test_it_watches_health_as_the_python_client_does() -> None:
    assert json.loads(CONFIG)["healthCheckConfig"] == json.loads(service_config(bertscope.Retries(1)))["healthCheckConfig"]
