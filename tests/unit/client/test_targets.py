"""Targets: which one a client calls, and what it says of those that can't be called."""

import logging
import socket

import bertscope
import pytest
from bertscope.rpc.targets import DEFAULT_TARGET, Target

from tests.support.stored_outputs import outcome

GOOD = [
    "127.0.0.1:50051",
    "bert.example:50051",
    "[::1]:50051",
    "dns:///bert",
    "dns:bert:1",
    "ipv4:1.2.3.4:5,6.7.8.9:10",
    "unix:/s",
]


@pytest.mark.parametrize("name", GOOD)
def test_what_grpc_can_call_is_taken(name):
    assert Target.of(name, encrypted=False).name == name


def chosen(caplog: pytest.LogCaptureFixture, *arguments: str) -> str:
    caplog.clear()
    with caplog.at_level(logging.INFO, "bertscope"):
        bertscope.Client(*arguments).close()
    (line,) = caplog.messages
    return line.removeprefix("calls ").partition(" ")[0]


def test_argument_then_variable_then_default(monkeypatch, caplog):
    monkeypatch.setenv("BERTSCOPE_TARGET", "variable:1")
    assert chosen(caplog, "argument:1") == "argument:1"
    assert chosen(caplog) == "variable:1"
    monkeypatch.setenv("BERTSCOPE_TARGET", "")
    assert chosen(caplog) == DEFAULT_TARGET
    monkeypatch.setenv("BERTSCOPE_TARGET", "http://variable:1")
    with pytest.raises(bertscope.InvalidArgument, match=r"BERTSCOPE_TARGET.*is a URL"):
        bertscope.Client()


def test_several_servers_share_the_calls():
    found = Target.of("127.0.0.1:1, localhost:2,127.0.0.3:3", encrypted=False)
    assert found == Target("ipv4:127.0.0.1:1,127.0.0.1:2,127.0.0.3:3", encrypted=False, shared=True)
    assert Target.of("[::1]:1,[::2]:2", encrypted=False).name == "ipv6:[::1]:1,[::2]:2"
    assert not Target.of("ipv4:127.0.0.1:1,127.0.0.1:2", encrypted=False).shared


def test_a_server_without_an_address_can_not_be_one_of_several(monkeypatch):
    def unknown(*arguments, **more):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(bertscope.InvalidArgument, match="there is no address for nowhere:1"):
        Target.of("nowhere:1,127.0.0.1:2", encrypted=False)


BAD = ["", "  ", "localhost", "::1", "http://bert:50051", "https://bert:50051/", "grpc://", " bert:50051", "bert:99999"]
BAD += ["bert:http", "bert:50051/v1", "a:b:1", ":50051", 50051]
SEVERAL = ["a:1,", "127.0.0.1:1,b", "127.0.0.1:1,unix:b", "127.0.0.1:1,[::1]:2"]
SAID = [
    "last error: ipv4:127.0.0.1:1: Failed to connect to remote host: Connection refused",
    "last error: Failed parsing HTTP/2 (Expected SETTINGS frame)",
    "failed to connect to all addresses; last error: UNAVAILABLE: Socket closed",
    "Tls handshake failed: SSL_ERROR_SSL: WRONG_VERSION_NUMBER",
    "Tls handshake failed: CERTIFICATE_VERIFY_FAILED: unable to get issuer",
    "UNAUTHENTICATED: Hostname Verification Check failed.",
    "errors resolving bert:1: Domain name not found",
    "connections to all backends failing; last error: ipv4:127.0.0.1:1: backend unhealthy",
    "something that nobody knows",
]


def test_what_cannot_be_called_is_refused_with_the_remedy(stored) -> None:
    for client in (bertscope.Client, bertscope.AsyncClient):
        with pytest.raises(bertscope.InvalidArgument) as caught:
            client("bert:http")
        assert (caught.value.field_violations[0].field, caught.value.reason) == ("target", "CLIENT_SIDE")
    stored(
        refused=[outcome(lambda name=name: bertscope.Client(name)) for name in BAD],
        several=[outcome(lambda name=name: Target.of(name, encrypted=False)) for name in SEVERAL],
        with_tls=Target.of("bert.example", encrypted=True),
    )


def test_what_grpc_says_is_explained(stored) -> None:
    closed = "failed to connect to all addresses; last error: Socket closed"
    stored(
        advice=[Target("bert:1", encrypted="Tls" in details).advice(details) for details in SAID],
        without_a_port=Target("bert.example", encrypted=True).advice("Connection refused"),
        without_a_certificate=Target("bert:1", encrypted=True).advice(closed),
    )
