"""A server whose gRPC ends though nobody stopped it: a flaw there must not leave a process that listens nowhere."""

import asyncio

import pytest
from bertscope_service.errors import Unavailable

from tests.support.harness import LoopThread, launched
from tests.support.patience import granted


def test_who_runs_a_server_hears_that_grpc_has_ended(loop: LoopThread) -> None:
    with launched(loop, load=False) as host:
        waiting = asyncio.run_coroutine_threadsafe(host.server.serve_on(), loop.loop)
        loop.run(host.server._server.stop(0))
        with pytest.raises(Unavailable, match="by itself"):
            waiting.result(granted(20))
