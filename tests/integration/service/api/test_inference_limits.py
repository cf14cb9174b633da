"""What calls of the Open Inference Protocol may take, how long they hold it, and what they leave behind."""

import threading
import weakref
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from bertscope.inference import open_inference_pb2 as oip
from bertscope.v1 import model_pb2 as model
from bertscope_service.api import inference_requests as messages
from bertscope_service.api import reply_memory
from numpy.typing import NDArray

from tests.support.harness import CALL_SECONDS, Host, held, refused
from tests.support.patience import wait_until
from tests.support.tensor_calls import Reference, ask, stub_of
from tests.support.tensors import arrays_of, request_of
from tests.support.tiny import MAX_TOKENS

METHOD = "/inference.GRPCInferenceService/ModelInfer"


def hidden_bytes(inputs: Mapping[str, NDArray[np.int64]]) -> int:
    """What the last hidden states of the tiny model take."""
    return inputs["input_ids"].size * 32 * 4


def test_a_reply_beyond_the_limit_is_refused_before_it_is_computed(
    host: Host, checkpoints: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = Reference(checkpoints["bert"]).inputs
    monkeypatch.setattr(messages, "MAX_REPLY_BYTES", hidden_bytes(inputs))
    ask(host, inputs)
    monkeypatch.setattr(messages, "MAX_REPLY_BYTES", hidden_bytes(inputs) - 1)
    with refused(grpc.StatusCode.INVALID_ARGUMENT) as failures:
        ask(host, inputs)
    assert (failures[0].info.reason, failures[0].fields) == ("REPLY_TOO_LARGE", ["outputs"])


def test_replies_at_work_together_are_bounded(
    host: Host, checkpoints: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = Reference(checkpoints["bert"]).inputs
    monkeypatch.setattr(reply_memory, "REPLIES_BYTES", 3 * hidden_bytes(inputs))
    with held(host, "models/bert") as gate, ThreadPoolExecutor(1) as pool:
        first = pool.submit(ask, host, inputs)
        wait_until(lambda: gate.arrived == 1, "a batch is at work")
        with refused(grpc.StatusCode.RESOURCE_EXHAUSTED) as failures:
            ask(host, inputs)
        assert failures[0].info.reason == "REPLIES_FULL"
        assert failures[0].retry is not None
        gate.let_through()
        first.result()
    ask(host, inputs)


@pytest.mark.slow
def test_a_reply_that_nobody_reads_keeps_its_room_and_other_clients_have_theirs(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Far more than gRPC sends to somebody who does not read.
    inputs = {"input_ids": np.full((256, MAX_TOKENS), 7)}
    expected = ask(host, inputs, ["logits"])["logits"]
    monkeypatch.setattr(reply_memory, "REPLIES_BYTES", 5 * expected.nbytes // 2)
    request = request_of(inputs, ["logits"])
    # As a stream, it is read when it is asked for.
    send: Any = host.channel.unary_stream(METHOD, oip.ModelInferRequest.SerializeToString, oip.ModelInferResponse.FromString)
    answered = host.metric("bertscope_requests_total", method="ModelInfer", code="OK")
    unread = send(request, timeout=CALL_SECONDS)
    wait_until(lambda: host.metric("bertscope_requests_total", method="ModelInfer", code="OK") > answered, "it is answered")
    with refused(grpc.StatusCode.RESOURCE_EXHAUSTED) as failures:
        ask(host, inputs, ["logits"])
    assert failures[0].info.reason == "REPLIES_FULL"
    with host.connect() as other:
        response = type(stub_of(host))(other).ModelInfer(request, timeout=CALL_SECONDS)
        assert (arrays_of(response)["logits"] == expected).all()
    (reply,) = unread
    assert (arrays_of(reply)["logits"] == expected).all()

    def is_room() -> bool:
        try:
            return bool((ask(host, inputs, ["logits"])["logits"] == expected).all())
        except grpc.RpcError as error:
            assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            return False

    wait_until(is_room, "its room is free")


def test_a_model_that_is_unloaded_finishes_its_calls_and_leaves_nothing(
    launch: Callable[..., Host], checkpoints: dict[str, Path]
) -> None:
    host = launch()
    inputs = Reference(checkpoints["bert"]).inputs
    expected = ask(host, inputs)["last_hidden_state"]
    loaded = host.server.registry.find("models/bert").loaded
    assert loaded is not None
    gone = threading.Event()
    weakref.finalize(loaded.encoder, gone.set)
    del loaded
    with held(host, "models/bert") as gate, ThreadPoolExecutor(2) as pool:
        running = pool.submit(ask, host, inputs)
        wait_until(lambda: gate.arrived == 1, "a batch is at work")
        unloading = pool.submit(host.models.UnloadModel, model.UnloadModelRequest(name="models/bert"), timeout=CALL_SECONDS)
        ready = oip.ModelReadyRequest(name="bert")
        wait_until(lambda: not stub_of(host).ModelReady(ready, timeout=CALL_SECONDS).ready, "it is being unloaded")
        with refused(grpc.StatusCode.NOT_FOUND):
            ask(host, inputs)
        gate.let_through()
        np.testing.assert_array_equal(running.result()["last_hidden_state"], expected)
        unloading.result()
    assert gone.wait(CALL_SECONDS)
