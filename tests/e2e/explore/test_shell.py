"""The page's frame in a real browser: header, theme, links, the Models view."""

import json
import re
import resource
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPConnection

import bertscope
import pytest
from playwright.sync_api import expect

from tests.support.browsing import Watched
from tests.support.disturbance import COMMAND
from tests.support.page import Page
from tests.support.patience import granted
from tests.support.process import Process

pytestmark = pytest.mark.slow

Visit = Callable[..., Watched]


@pytest.fixture
def own(launch: Callable[..., Process]) -> Iterator[tuple[Page, Process]]:
    """A page over a server of the test's own."""
    server = launch()
    server.wait_until_serving()
    with Page(server.target) as page:
        yield page, server


def test_the_models_view_shows_what_the_client_says(visit: Visit, page: Page, target: str) -> None:
    tab = visit("#models").tab
    with bertscope.Client(target) as client:
        model = client.get_model()
    row = tab.get_by_role("row").filter(has_text=model.name.removeprefix("models/"))
    expect(row).to_contain_text(f"{model.layers} × {model.heads}")
    expect(row).to_contain_text(f"{model.max_tokens} tokens")
    expect(tab.locator("#server")).to_have_text(f"{target}, {model.runtime} on {model.device}, {model.precision}")
    assert tab.url == f"http://{page.host}/#models"  # The key has left the address.
    assert tab.title() == "Models - bertscope"


def test_light_and_dark(visit: Visit) -> None:
    tab = visit("#models", color_scheme="dark").tab
    expect(tab.locator("html")).to_have_attribute("data-theme", "dark")
    tab.get_by_role("button", name="Light colours").click()
    expect(tab.locator("html")).to_have_attribute("data-theme", "light")
    tab.reload()
    expect(tab.locator("html")).to_have_attribute("data-theme", "light")


def test_a_link_in_a_fresh_browser_asks_for_the_key_and_leads_where_it_says(visit: Visit, page: Page) -> None:
    watched = visit("#models", key=False)
    watched.expected = ("401",)
    tab = watched.tab
    expect(tab.get_by_role("heading", name="This page needs its key")).to_be_visible()
    tab.get_by_label("Printed address").fill("http://127.0.0.1:6260/")
    tab.get_by_role("button", name="Open").click()
    expect(tab.get_by_role("alert")).to_contain_text("no key in it")
    tab.get_by_label("Printed address").fill("a-wrong-key")
    tab.get_by_role("button", name="Open").click()
    expect(tab.get_by_role("heading", name="This page needs its key")).to_be_visible()
    tab.get_by_label("Printed address").fill(page.address)
    tab.get_by_role("button", name="Open").click()
    expect(tab.get_by_role("row").first).to_be_visible()
    expect(tab.get_by_role("heading", name="This page needs its key")).to_be_hidden()
    assert tab.url == f"http://{page.host}/#models"


def test_a_link_in_another_tab_opens_beside_one_that_is_open(visit: Visit, page: Page) -> None:
    first = visit("#models").tab
    expect(first.get_by_role("row").first).to_be_visible()
    tab = first.context.new_page()  # It shares no storage of a tab.
    tab.goto(f"http://{page.host}/#models")
    expect(tab.get_by_role("row").first).to_be_visible()
    first.close()
    tab.reload()
    expect(tab.get_by_role("row").first).to_be_visible()


def test_models_are_compressed_and_unloaded(visit: Visit, own: tuple[Page, Process]) -> None:
    page, _ = own
    tab = visit("#models", of=page).tab
    tab.on("dialog", lambda dialog: dialog.accept())
    tab.locator("select[name=step]").select_option("layers")
    tab.get_by_label("Layers to keep, from 0").fill("0, 1")
    tab.get_by_label("Name of the new model").fill("two-layers")
    tab.get_by_role("button", name="Compress").click()
    expect(tab.get_by_role("row").filter(has_text="two-layers")).to_contain_text("2 × 12")
    expect(tab.locator("#model option")).to_have_count(2)
    tab.get_by_role("button", name="Unload two-layers").click()
    expect(tab.get_by_text("two-layers is unloaded.", exact=True).first).to_be_visible()
    expect(tab.locator("#model option")).to_have_count(1)
    tab.get_by_label("Hub id, or a folder or .onnx file on the server").fill("<img src=x onerror=alert(1)>")
    tab.get_by_role("button", name="Load", exact=True).click()
    expect(tab.locator(".status-line[data-kind=error]")).to_contain_text("<img src=x onerror=alert(1)>")


@contextmanager
def printed(target: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Runs `bertscope explore`, and yields it with the address that it prints; kills it at the end, if it still runs."""
    command = [*COMMAND, "explore", "--target", target, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            assert process.stdout is not None
            yield process, next(line.strip() for line in process.stdout if line.startswith("http"))
        finally:
            process.kill()


def test_a_server_that_does_not_answer_is_said() -> None:
    with printed("127.0.0.1:1") as (process, _):
        said = process.stdout.readline()
        assert "no server answers at 127.0.0.1:1 yet; start one with `bertscope serve`" in said
        process.send_signal(signal.SIGINT)
        assert process.wait(granted(30)) == 0


def test_the_command(target: str) -> None:
    with printed(target) as (process, address):
        found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/#key=[\w-]{40,}", address)
        assert found, address
        again = [*COMMAND, "explore", "--target", target, "--port", found[1]]
        taken = subprocess.run(again, capture_output=True, text=True, timeout=granted(60), check=False)
        assert (taken.returncode, "--port 0" in taken.stderr) == (1, True)
        process.send_signal(signal.SIGINT)
        assert process.wait(granted(30)) == 0
        assert process.stdout.read() == ""


def test_a_burst_of_connections_locks_nobody_out_and_sigterm_is_the_end() -> None:
    """All connect before the page accepts the first one; it has far fewer descriptors than there are connections."""
    with printed("127.0.0.1:1") as (process, address), ExitStack() as held:
        assert process.stdout is not None
        process.stdout.readline()  # No server answers: it has begun.
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (160, 160))
        host, _, key = address.removeprefix("http://").partition("/#key=")
        process.send_signal(signal.SIGSTOP)
        name, port = host.split(":")
        for _ in range(600):
            held.enter_context(socket.create_connection((name, int(port)), timeout=granted(60)))
        process.send_signal(signal.SIGCONT)
        headers = {"Authorization": f"Bearer {key}", "Origin": f"http://{host}", "Content-Type": "application/json"}
        owner = held.enter_context(closing(HTTPConnection(host, timeout=granted(60))))
        owner.request("POST", "/api/server", b"{}", headers)
        assert json.loads(owner.getresponse().read()) == {"target": "127.0.0.1:1"}
        process.send_signal(signal.SIGTERM)
        assert process.wait(granted(30)) == 0
        assert process.stdout.read() == ""  # Without a word of descriptors that are used up.
