"""grpc.channelz.v1: what gRPC itself knows of a server's connections, for operators who asked for it."""

from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from bertscope.v1 import cloze_pb2 as cloze
from grpc_channelz.v1 import channelz_pb2, channelz_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from tests.support.harness import CALL_SECONDS, Host, LoopThread, code_of, launched


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
