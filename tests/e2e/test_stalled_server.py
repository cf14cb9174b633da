"""A server that gets no processor for a while, as beside work that takes the whole machine, loses no call that is quiet."""

import signal
import threading
from collections.abc import Callable

import bertscope
import pytest

from tests.support.process import Process

pytestmark = pytest.mark.slow

STALL_SECONDS = 70
"""Longer than the minute after which gRPC, unless it is told otherwise, gives a connection up that does not answer a ping."""


@pytest.mark.timeout(300)
def test_a_compression_outlasts_a_server_that_stands_still(launch: Callable[..., Process]) -> None:
    server = launch("--min-ping-seconds", "0.1")
    server.wait_until_serving()
    ping_often = [("grpc.keepalive_time_ms", 1000)]
    stalled = threading.Event()

    def stall(_: bertscope.CompressionProgress) -> None:
        if not stalled.is_set():
            stalled.set()
            server.popen.send_signal(signal.SIGSTOP)
            threading.Timer(STALL_SECONDS, server.popen.send_signal, [signal.SIGCONT]).start()

    with bertscope.Client(server.target, options=ping_often) as client:
        made = client.compress_model("small", [bertscope.keep_layers([0, 1]), bertscope.int8()], on_progress=stall)
        assert stalled.is_set()
        assert made.layers == 2
