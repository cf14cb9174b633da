"""A Ray cluster with two replicas answers as our own server does, also while replicas are killed."""

import hashlib
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.util import find_spec
from typing import Any

import bertscope
import grpc
import pytest
from bertscope.inference import open_inference_pb2 as oip
from bertscope.inference import open_inference_pb2_grpc as oip_grpc
from bertscope.v1 import ablation_pb2 as ablation
from bertscope.v1 import ablation_pb2_grpc, attention_pb2_grpc, cloze_pb2_grpc
from bertscope.v1 import attention_pb2 as attention
from bertscope.v1 import cloze_pb2 as cloze
from bertscope.v1 import common_pb2 as common
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.support.patience import granted, wait_until
from tests.support.process import Process
from tools.deploy.ray_cluster import Cluster, read_configuration

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(480),
    # Not imported here: that takes seconds, and only the cluster's processes need it.
    pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed: pip install 'ray[serve]'"),
]

CALL_SECONDS = granted(60.0)
READ = "read-token"
MODEL = "bertscope-mini"
FILL = cloze.FillMaskRequest(texts=["Paris is the capital of [MASK].", "The cat sat on the [MASK]."], top_k=5)
MAPS = attention.ExtractAttentionRequest(
    inputs=[common.TextInput(text="The cat sat."), common.TextInput(text="the old man and the sea " * 20)]
)
TEXTS = ["In Japan it rains in [MASK]."]
PROMPTS = [common.TextInput(text=f"In the year {year} the cat sat on the [MASK].") for year in range(1700, 1950)]
SWEEP = ablation.SweepHeadsRequest(
    objective=ablation.Objective(divergence=ablation.Divergence(inputs=PROMPTS)), mode=common.HeadIntervention.MODE_ZERO
)
"""Takes a core for many seconds."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """What deploy/ray describes, for callers with tokens."""
    folder = tmp_path_factory.mktemp("ray")
    tokens = folder / "tokens"
    tokens.write_text(f"read read sha256:{hashlib.sha256(READ.encode()).hexdigest()}\n", encoding="utf-8")
    configuration = read_configuration()
    (application,) = configuration["applications"]
    application["args"]["settings"] = {"tokens_file": str(tokens), "runtime": "torch"}
    with Cluster(folder, configuration, HF_HUB_OFFLINE="1") as cluster:
        cluster.wait_until_serving()
        yield cluster


@pytest.fixture(scope="module")
def channel(cluster: Cluster) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(cluster.target) as channel:
        yield channel


def bearing(token: str, request_id: str = "asked-by-a-test") -> tuple[tuple[str, str], ...]:
    return (("authorization", f"Bearer {token}"), ("x-request-id", request_id))


def fill(channel: grpc.Channel, request: cloze.FillMaskRequest = FILL) -> list[Any]:
    stub = cloze_pb2_grpc.ClozeServiceStub(channel)
    return [stub.FillMask(request, timeout=CALL_SECONDS, metadata=bearing(READ))]


def maps(channel: grpc.Channel, request: attention.ExtractAttentionRequest = MAPS) -> list[Any]:
    stub = attention_pb2_grpc.AttentionServiceStub(channel)
    return list(stub.ExtractAttention(request, timeout=CALL_SECONDS, metadata=bearing(READ)))


def infer(channel: grpc.Channel) -> list[Any]:
    tensor = oip.ModelInferRequest.InferInputTensor(name="text", datatype="BYTES", shape=[1])
    tensor.contents.bytes_contents.append(b"The cat sat on the [MASK].")
    request = oip.ModelInferRequest(model_name=MODEL, inputs=[tensor])
    stub = oip_grpc.GRPCInferenceServiceStub(channel)
    return [stub.ModelInfer(request, timeout=CALL_SECONDS, metadata=bearing(READ))]


def written(messages: list[Any]) -> list[bytes]:
    """Messages as bytes, without what says where they come from."""
    for message in messages:
        for holder in (message, getattr(message, "header", None)):
            if holder is not None and "provenance" in holder.DESCRIPTOR.fields_by_name:
                holder.ClearField("provenance")
    return [message.SerializeToString(deterministic=True) for message in messages]


@pytest.mark.parametrize("ask", [fill, maps, infer])
def test_both_answer_with_the_same_bytes(
    ask: Callable[[grpc.Channel], list[Any]], channel: grpc.Channel, embedded: Process
) -> None:
    ours, theirs = written(ask(embedded.channel)), written(ask(channel))
    assert sum(map(len, ours)) > 100
    assert theirs == ours


def failure(call: Callable[[grpc.Channel], Any], channel: grpc.Channel) -> tuple[Any, ...]:
    with pytest.raises(grpc.RpcError) as caught:
        call(channel)
    error: Any = caught.value
    told = {key: value for key, value in error.trailing_metadata() if key in ("grpc-status-details-bin", "x-request-id")}
    return error.code(), error.details(), told


@pytest.mark.parametrize(
    "ask",
    [
        partial(fill, request=cloze.FillMaskRequest(texts=["no mask"])),
        partial(fill, request=cloze.FillMaskRequest(texts=TEXTS, model="models/missing")),
        partial(maps, request=attention.ExtractAttentionRequest(inputs=MAPS.inputs, layers=[99])),
    ],
    ids=["a field", "a model", "a stream"],
)
def test_both_refuse_with_the_same_details(
    ask: Callable[[grpc.Channel], Any], channel: grpc.Channel, embedded: Process
) -> None:
    ours, theirs = (failure(ask, one) for one in (embedded.channel, channel))
    assert ours[2].keys() == {"grpc-status-details-bin", "x-request-id"}
    assert theirs == ours


def test_our_client_works_unchanged(cluster: Cluster) -> None:
    with bertscope.Client(cluster.target, token=READ) as client:
        assert client.health().serving
        assert [one.name for one in client.list_models()] == [f"models/{MODEL}"]
        assert client.fill_mask("Paris is the capital of [MASK].")[0].masks[0].predictions[0].token == "france"
        (found,) = client.extract_attention(["The cat sat."])
        assert found.attention.shape == (6, 12, 6, 6)


def test_health_knows_its_services(channel: grpc.Channel) -> None:
    stub: Any = health_pb2_grpc.HealthStub(channel)
    watching = stub.Watch(health_pb2.HealthCheckRequest(service="bertscope.v1.ClozeService"), timeout=CALL_SECONDS)
    assert next(watching).status == health_pb2.HealthCheckResponse.SERVING
    watching.cancel()
    with pytest.raises(grpc.RpcError) as caught:
        stub.Check(health_pb2.HealthCheckRequest(service="no.such.Service"), timeout=CALL_SECONDS)
    error: Any = caught.value
    assert error.code() is grpc.StatusCode.NOT_FOUND


def cancelled_sweep(channel: grpc.Channel) -> str:
    """The request id of a call that its caller cancels while the replica works for it."""
    call = ablation_pb2_grpc.AblationServiceStub(channel).SweepHeads(SWEEP, CALL_SECONDS, bearing(READ, "cancelled"))
    next(call)
    call.cancel()
    return "cancelled"


def late_sweep(channel: grpc.Channel) -> str:
    """The same for a call whose deadline passes meanwhile."""
    seconds = 1.0
    while seconds < CALL_SECONDS:
        request_id = f"late-by-{seconds:g}"
        call = ablation_pb2_grpc.AblationServiceStub(channel).SweepHeads(SWEEP, seconds, bearing(READ, request_id))
        messages: list[Any] = []
        with pytest.raises(grpc.RpcError):
            messages.extend(call)
        assert call.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        if messages:
            return request_id
        seconds *= 2  # the machine is busy: the replica may not even have heard of it
    raise AssertionError("the sweep never began")


@pytest.mark.parametrize("leave", [cancelled_sweep, late_sweep])
def test_a_call_that_nobody_waits_for_ends_in_its_replica(
    leave: Callable[[grpc.Channel], str], cluster: Cluster, channel: grpc.Channel
) -> None:
    request_id = leave(channel)

    def logged() -> bool:
        return any(f"request_id={request_id} " in f"{line} " and "code=CANCELLED" in line for line in cluster.text.splitlines())

    wait_until(logged, "the replica has dropped the call")


@pytest.mark.parametrize("deployment", [MODEL, "ingress"])
def test_every_call_is_answered_while_a_replica_is_killed(cluster: Cluster, deployment: str) -> None:
    wait_until(lambda: len(cluster.replicas(deployment)) > 1, "there is another replica")
    victim = cluster.replicas(deployment)[0]
    killed, after = threading.Event(), 5
    with bertscope.Client(cluster.target, token=READ, timeout=CALL_SECONDS) as client:
        expected = client.fill_mask(TEXTS)[0].masks[0].predictions

        def ask_on(_: int) -> int:
            answered = more = 0
            while more < after:
                more += killed.is_set()
                found = client.fill_mask(TEXTS)[0].masks[0].predictions
                # Batches differ from call to call, and with them the last digits.
                assert [one.token for one in found] == [one.token for one in expected]
                assert found[0].probability == pytest.approx(expected[0].probability, rel=1e-4)
                answered += 1
            return answered

        with ThreadPoolExecutor(4) as callers:
            counts = [callers.submit(ask_on, number) for number in range(4)]
            client.fill_mask(TEXTS)
            victim.send_signal(signal.SIGKILL)
            victim.wait(granted(10))
            killed.set()
            assert min(count.result() for count in counts) >= after


def test_nothing_is_left_of_a_cluster_that_was_stopped(cluster: Cluster) -> None:
    assert len(cluster.processes()) > 5
    assert cluster.stop() == []
