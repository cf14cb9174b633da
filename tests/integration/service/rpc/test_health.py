"""What a server says of itself to those who watch it: health, and gRPC's channelz."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest
from bertscope.v1 import cloze_pb2 as cloze
from bertscope_service.rpc import health
from grpc_channelz.v1 import channelz_pb2, channelz_pb2_grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from tests.support.harness import CALL_SECONDS, Host, LoopThread, code_of, launched, refused
from tests.support.patience import wait_until

Status = health_pb2.HealthCheckResponse
GOOD = cloze.FillMaskRequest(texts=["The [MASK] sat."])


def watch(channel: grpc.Channel, service: str = "") -> Iterator[Any]:
    stub: Any = health_pb2_grpc.HealthStub(channel)
    stream: Iterator[Any] = stub.Watch(health_pb2.HealthCheckRequest(service=service), timeout=CALL_SECONDS)
    return stream


def test_watchers_hear_of_serving_and_of_the_stop_also_after_another_has_left(
    launch: Callable[..., Host], loop: LoopThread
) -> None:
    host = launch(load=False)
    staying: list[Any] = [watch(host.channel), watch(host.channel, "bertscope.v1.ClozeService")]
    leaving: Any = watch(host.channel)
    for stream in (*staying, leaving):
        assert next(stream).status == Status.NOT_SERVING
    leaving.cancel()
    loop.run(host.server.load_models())
    for stream in staying:
        assert next(stream).status == Status.SERVING
    stopping = asyncio.run_coroutine_threadsafe(host.server.stop(20), loop.loop)
    for stream in staying:
        assert next(stream).status == Status.NOT_SERVING
        with refused(grpc.StatusCode.UNAVAILABLE) as failures:
            next(stream)
        assert failures[0].info.reason == "DRAINING"
    stopping.result(CALL_SECONDS)


def test_a_watch_of_an_unknown_service_says_so_and_stays(host: Host) -> None:
    stream: Any = watch(host.channel, "bertscope.v1.NoService")
    assert next(stream).status == Status.SERVICE_UNKNOWN
    assert stream.is_active()
    stream.cancel()


def test_watches_are_bounded_and_make_room_when_they_end(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "MAX_WATCHES", 2)
    first, second = watch(host.channel), watch(host.channel)
    assert next(first).status == next(second).status == Status.SERVING
    with pytest.raises(grpc.RpcError) as full:
        next(watch(host.channel))
    assert full.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    first.cancel()

    def watched() -> bool:
        try:
            return bool(next(watch(host.channel)))
        except grpc.RpcError:
            return False

    wait_until(watched, "there is room")
    second.cancel()


def test_clients_that_only_stay_connected_are_left_without_a_complaint_of_grpc(
    launch: Callable[..., Host], loop: LoopThread, capfd: pytest.CaptureFixture[str]
) -> None:
    host = launch()
    channels = [host.connect() for _ in range(8)]
    for channel in channels:
        assert type(host.cloze)(channel).FillMask(GOOD, timeout=CALL_SECONDS).results
    watching = watch(channels[0])
    assert next(watching).status == Status.SERVING
    loop.run(host.server.stop(20))
    for channel in channels:
        with pytest.raises(grpc.RpcError) as caught:  # every client knows by now that the server is gone
            type(host.cloze)(channel).FillMask(GOOD, timeout=CALL_SECONDS)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        channel.close()
    assert "goaway" not in capfd.readouterr().err


def test_connections_beyond_the_limit_are_closed_and_make_room_when_others_end(launch: Callable[..., Host]) -> None:
    host = launch(max_connections=2)
    assert host.cloze.FillMask(GOOD, timeout=CALL_SECONDS).results
    second = host.connect()
    assert type(host.cloze)(second).FillMask(GOOD, timeout=CALL_SECONDS).results
    with host.connect() as third:
        with pytest.raises(grpc.RpcError) as caught:
            type(host.cloze)(third).FillMask(GOOD, timeout=CALL_SECONDS)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    assert host.cloze.FillMask(GOOD, timeout=CALL_SECONDS).results
    second.close()

    def is_let_in() -> bool:
        with host.connect() as later:
            try:
                return bool(type(host.cloze)(later).FillMask(GOOD, timeout=CALL_SECONDS).results)
            except grpc.RpcError:
                return False

    wait_until(is_let_in, "the place of the one that ended is free")


@pytest.fixture(scope="module")
def inspected(loop: LoopThread, checkpoints: dict[str, Any]) -> Iterator[Host]:
    with launched(loop, model=[f"bert={checkpoints['bert']}"], channelz=True) as running:
        yield running


def servers(stub: Any) -> dict[int, Any]:
    """All servers of this process, by number."""
    found = stub.GetServers(channelz_pb2.GetServersRequest(), timeout=CALL_SECONDS).server
    return {server.ref.server_id: server for server in found}


def test_channelz_counts_calls_and_shows_connections(inspected: Host) -> None:
    stub: Any = channelz_pb2_grpc.ChannelzStub(inspected.channel)
    before = servers(stub)
    for _ in range(3):
        inspected.cloze.FillMask(cloze.FillMaskRequest(texts=["The [MASK] sat."]), timeout=CALL_SECONDS)
    counts = {
        number: server.data.calls_succeeded - before[number].data.calls_succeeded for number, server in servers(stub).items()
    }
    (number,) = (number for number, count in counts.items() if count >= 3)
    request = channelz_pb2.GetServerSocketsRequest(server_id=number)
    sockets = stub.GetServerSockets(request, timeout=CALL_SECONDS).socket_ref
    details = [
        stub.GetSocket(channelz_pb2.GetSocketRequest(socket_id=socket.socket_id), timeout=CALL_SECONDS).socket
        for socket in sockets
    ]
    assert any(socket.data.streams_started >= 4 and socket.data.messages_received >= 4 for socket in details)
    channels = stub.GetTopChannels(channelz_pb2.GetTopChannelsRequest(), timeout=CALL_SECONDS).channel
    assert any(inspected.target in channel.data.target for channel in channels)


def test_what_is_not_there_is_not_found(inspected: Host) -> None:
    stub: Any = channelz_pb2_grpc.ChannelzStub(inspected.channel)
    with pytest.raises(grpc.RpcError) as caught:
        stub.GetSocket(channelz_pb2.GetSocketRequest(socket_id=10**9), timeout=CALL_SECONDS)
    assert code_of(caught.value) is grpc.StatusCode.NOT_FOUND


def test_channelz_is_listed_where_it_is_on_and_is_off_unless_asked_for(inspected: Host, host: Host) -> None:
    name = channelz_pb2.DESCRIPTOR.services_by_name["Channelz"].full_name
    assert name in ProtoReflectionDescriptorDatabase(inspected.channel).get_services()
    assert name not in ProtoReflectionDescriptorDatabase(host.channel).get_services()
    stub: Any = channelz_pb2_grpc.ChannelzStub(host.channel)
    with pytest.raises(grpc.RpcError) as caught:
        stub.GetServers(channelz_pb2.GetServersRequest(), timeout=CALL_SECONDS)
    assert code_of(caught.value) is grpc.StatusCode.UNIMPLEMENTED
