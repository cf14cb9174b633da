"""Calls of any rpc by its name: requests are made of fields, messages among them as messages or as dicts."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import grpc
from bertscope_service.checkpoints.sources import Source
from bertscope_service.contract import METHODS

from tests.support.harness import CALL_SECONDS, Failure, Held, Host, refused
from tests.support.patience import wait_until

RPCS = {method.name: method for method in METHODS.values()}


def call(host: Host, rpc: str, /, *, timeout: float = CALL_SECONDS, **fields: Any) -> Any:
    """Returns the reply; all of them, in a list, if the rpc streams."""
    method = RPCS[rpc]
    replies = host.ask(method, method.request(**fields).SerializeToString(), timeout=timeout)
    found = [method.response.FromString(reply) for reply in replies]
    return found if method.streaming else found[0]


def refusal(host: Host, rpc: str, /, *, code: grpc.StatusCode = grpc.StatusCode.INVALID_ARGUMENT, **fields: Any) -> Failure:
    """Returns how a call is refused, which it must be with this status."""
    with refused(code) as failures:
        call(host, rpc, **fields)
    return failures[0]


def load(host: Host, **fields: Any) -> Any:
    """Returns the model that LoadModel gives."""
    return call(host, "LoadModel", **fields)[-1].model


def get(host: Host, name: str) -> Any:
    return call(host, "GetModel", name=name).model


@contextmanager
def models_as_before(host: Host) -> Iterator[None]:
    """Unloads, at the end, what a test has loaded or made, and sees that the other models are as before."""
    before = list(call(host, "ListModels").models)
    yield
    host.unload_all_but([model.name for model in before])
    assert list(call(host, "ListModels").models) == before


@contextmanager
def held_digests() -> Iterator[Held]:
    """Whoever reads weights waits for the gate: loads, and steps that make a model, which read the original and the result."""
    gate, digest = Held(), Source.digest

    def waited(source: Source, report: Any) -> str:
        gate.wait()
        return digest(source, report)

    with patch.object(Source, "digest", waited):
        try:
            yield gate
        finally:
            gate.let_through()
            wait_until(lambda: not any(one.name.startswith("bertscope-load") for one in threading.enumerate()), "reading ends")
