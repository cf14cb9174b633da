"""Connections that send nothing, or half a request, or read no answer, are ended, and take no place from the page's owner."""

import socket

import pytest
from bertscope_workbench.local_http.connections import BoundedConnection

from tests.support.fake_server import Waiting, start
from tests.support.page import Page
from tests.support.patience import granted

HEAD = "POST /api/server HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\nContent-Type: application/json\r\n"


@pytest.fixture
def page(host):
    with Page(host.target) as running:
        yield running


def connected(page, text=""):
    connection = socket.create_connection(("127.0.0.1", page.port), timeout=granted(60))
    connection.sendall(text.format(host=page.host).encode())
    return connection


def all_of(connection):
    """Reads until the other side ends the connection."""
    found = b""
    try:
        while part := connection.recv(65536):
            found += part
    except ConnectionResetError:
        pass
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    "sent",
    [
        "",
        "GET / HTTP/1.1\r\nHost: {host}\r\nX-Rest: ",
        HEAD
        + "Content-Length: 10\r\n\r\n{{",  # Without the key: it is refused before its body is there, and ended all the same.
        "GET / HTTP/1.1\r\nHost: {host}\r\n\r\nGET / HT",
    ],
)
def test_a_request_that_does_not_come_is_ended(page, monkeypatch, sent):
    monkeypatch.setattr(BoundedConnection, "request_seconds", 0.3)
    with connected(page, sent) as connection:
        all_of(connection)  # Would wait for ever.
    assert page.ask("server", {})


def test_connections_that_only_wait_take_no_place(page):
    waiting = [connected(page, "GET / HT") for _ in range(3 * BoundedConnection.max_connections)]
    try:
        for _ in range(3):
            assert page.ask("server", {})
        all_of(waiting[0])  # The oldest was ended.
    finally:
        for connection in waiting:
            connection.close()


@pytest.mark.slow
def test_a_question_that_is_answered_keeps_its_place(page, monkeypatch):
    """A load that runs outlasts what a request may take, and more connections than there may be."""
    monkeypatch.setattr(BoundedConnection, "request_seconds", 0.3)
    server = Waiting()
    fake = start(server)
    try:
        with Page(server.target) as slow:
            reply = slow.open("load", {"source": "anything"})
            assert b"waiting" in reply.readline()
            others = [connected(slow) for _ in range(2 * BoundedConnection.max_connections)]
            for connection in others:
                all_of(connection)  # Each outlasts the time of a request.
                connection.close()
            assert not server.ended.is_set()
            reply.close()
            assert server.ended.wait(granted(30))
    finally:
        fake.stop(grace=None).wait()
