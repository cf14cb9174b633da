"""Targets: which one a client calls, and what it says of those that can't be called."""

import logging
import re
import socket

import bertscope
import pytest
from bertscope.rpc.targets import DEFAULT_TARGET, Target

GOOD = [
    "127.0.0.1:50051",
    "bert.example:50051",
    "[::1]:50051",
    "dns:///bert",
    "dns:bert:1",
    "ipv4:1.2.3.4:5,6.7.8.9:10",
    "unix:/s",
]
BAD = {
    "": "is empty",
    "  ": "is empty",
    "localhost": 'write "localhost:50051"',
    "::1": r'write "\[::1\]:50051"',
    "http://bert:50051": 'is a URL; write "bert:50051"$',
    "https://bert:50051/": r'is a URL; write "bert:50051", and tls=bertscope.Tls\(\)',
    "grpc://": "names no host",
    " bert:50051": "has a blank",
    "bert:99999": "'99999' is not a number from 1 to 65535",
    "bert:http": "'http' is not a number",
    "bert:50051/v1": "is not a number",
    "a:b:1": "is not a server's name",
    ":50051": "is not a server's name",
}


@pytest.mark.parametrize("name", GOOD)
def test_what_grpc_can_call_is_taken(name):
    assert Target.of(name, encrypted=False).name == name


@pytest.mark.parametrize(("name", "says"), BAD.items())
def test_what_cannot_be_called_is_refused_with_the_remedy(name, says):
    for client in (bertscope.Client, bertscope.AsyncClient):
        with pytest.raises(bertscope.InvalidArgument, match=says) as caught:
            client(name)
        assert (caught.value.field_violations[0].field, caught.value.reason) == ("target", "CLIENT_SIDE")


def test_tls_may_leave_the_port_to_grpc():
    assert Target.of("bert.example", encrypted=True).name == "bert.example"


def test_a_target_is_a_string():
    with pytest.raises(bertscope.InvalidArgument, match="must be a string such as"):
        bertscope.Client(50051)  # type: ignore[arg-type]


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


SAID = {
    "last error: ipv4:127.0.0.1:1: Failed to connect to remote host: Connection refused": "no server listens at bert:1",
    "last error: Failed parsing HTTP/2 (Expected SETTINGS frame)": "does not speak gRPC.*metrics",
    "failed to connect to all addresses; last error: UNAVAILABLE: Socket closed": r"may speak TLS.*tls=bertscope.Tls\(ca",
    "Tls handshake failed: SSL_ERROR_SSL: WRONG_VERSION_NUMBER": "does not speak TLS; leave tls out",
    "Tls handshake failed: CERTIFICATE_VERIFY_FAILED: unable to get issuer": "authority",
    "UNAUTHENTICATED: Hostname Verification Check failed.": "another name.*server_name",
    "errors resolving bert:1: Domain name not found": "no address for bert:1",
    "connections to all backends failing; last error: ipv4:127.0.0.1:1: backend unhealthy": "no server at bert:1 serves now",
    "something that nobody knows": "^$",
}


@pytest.mark.parametrize(("details", "says"), SAID.items())
def test_what_grpc_says_is_explained(details, says):
    assert re.search(says, Target("bert:1", encrypted="Tls" in details).advice(details))


def test_a_missing_port_is_named_where_nobody_listens():
    assert "port 443" in Target("bert.example", encrypted=True).advice("Connection refused")


def test_a_server_that_wants_a_certificate():
    advice = Target("bert:1", encrypted=True).advice("failed to connect to all addresses; last error: Socket closed")
    assert "certificate=..." in advice


def test_several_servers_share_the_calls():
    found = Target.of("127.0.0.1:1, localhost:2,127.0.0.3:3", encrypted=False)
    assert found == Target("ipv4:127.0.0.1:1,127.0.0.1:2,127.0.0.3:3", encrypted=False, shared=True)
    assert Target.of("[::1]:1,[::2]:2", encrypted=False).name == "ipv6:[::1]:1,[::2]:2"
    assert not Target.of("ipv4:127.0.0.1:1,127.0.0.1:2", encrypted=False).shared


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        ("a:1,", "is empty"),
        ("127.0.0.1:1,b", "'b' has no port"),
        ("127.0.0.1:1,unix:b", "'unix:b' can't be one of several"),
        ("127.0.0.1:1,[::1]:2", "addresses of two kinds"),
    ],
)
def test_several_servers_that_can_not_be(target, problem):
    with pytest.raises(bertscope.InvalidArgument, match=problem):
        Target.of(target, encrypted=False)


def test_a_server_without_an_address_can_not_be_one_of_several(monkeypatch):
    def unknown(*arguments, **more):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(bertscope.InvalidArgument, match="there is no address for nowhere:1"):
        Target.of("nowhere:1,127.0.0.1:2", encrypted=False)
