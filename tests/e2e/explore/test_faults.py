"""What the page does when its server is overloaded, gone, or its tab is closed."""

import re
import threading
from collections.abc import Callable

import grpc
import pytest
from google.protobuf import any_pb2, duration_pb2
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status
from playwright.sync_api import expect

from tests.support.browsing import Watched
from tests.support.fake_server import FakeServer, start
from tests.support.page import Page
from tests.support.patience import granted
from tests.support.process import Process

pytestmark = pytest.mark.slow

Visit = Callable[..., Watched]


class Overloaded(FakeServer):
    """Rejects calls until it is told otherwise."""

    def __init__(self) -> None:
        super().__init__()
        self.free = threading.Event()

    def ListModels(self, request, context):
        if not self.free.is_set():
            wait, detail = error_details_pb2.RetryInfo(retry_delay=duration_pb2.Duration(nanos=200_000_000)), any_pb2.Any()
            detail.Pack(wait)
            status = status_pb2.Status(
                code=grpc.StatusCode.RESOURCE_EXHAUSTED.value[0], message="the queue is full", details=[detail]
            )
            context.abort_with_status(rpc_status.to_status(status))
        return super().ListModels(request, context)


def test_an_overloaded_server_is_waited_for(visit: Visit) -> None:
    server = Overloaded()
    host = start(server)
    try:
        with Page(server.target) as page:
            tab = visit("#models", of=page).tab
            expect(tab.locator("#server")).to_have_text(re.compile(r"is busy; trying again in 0\.2 s"))
            server.free.set()
            expect(tab.get_by_role("row").filter(has_text="fake")).to_be_visible()
            expect(tab.locator("#server")).to_have_attribute("data-state", "fine")
    finally:
        host.stop(grace=None).wait()


def test_a_killed_server_is_waited_for_and_loses_nothing(visit: Visit, launch: Callable[..., Process]) -> None:
    first = launch()
    first.wait_until_serving()
    port = first.ports["port"]
    with Page(first.target) as page:
        tab = visit("#explore?brush=x&text=Paris+is+the+capital+of+[MASK].", of=page).tab
        expect(tab.locator(".looks")).to_contain_text("looks at")
        before = tab.locator(".headline").inner_text()
        first.popen.kill()
        first.popen.wait(granted(30))
        tab.get_by_role("gridcell", name=re.compile("^layer 1 head 8")).click()
        expect(tab.locator("#server")).to_contain_text("trying again")
        expect(tab.locator(".bars")).to_be_visible()  # What is old stays, greyed.
        expect(tab.locator(".predictions").locator("xpath=..")).to_have_class(re.compile("stale"))
        second = launch("--port", str(port))
        second.wait_until_serving()
        expect(tab.locator(".chip")).to_have_text("✕ 1:8")
        expect(tab.locator(".headline")).not_to_have_text(before, timeout=granted(30_000))
        expect(tab.locator(".headline s")).to_contain_text("france")
