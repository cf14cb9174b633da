"""Another server on this machine that the page's browser visits gets nothing that gives rights, and locks nobody out."""

import threading
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from playwright.sync_api import expect

from tests.support.browsing import Watched
from tests.support.page import KEY, Page
from tests.support.patience import granted

pytestmark = pytest.mark.slow

Visit = Callable[..., Watched]
ODD = ['={"a":1}', "a={[,]}"]
LARGE = [f"big{number}={'x' * 4000}" for number in range(60)]
"""The browser sends them to every port of 127.0.0.1; HTTP servers take far fewer kilobytes by default."""
ATTEMPTS = """
async host => {
  const found = [];
  const post = {method: "POST", body: "{}", credentials: "include"};
  for (const how of [post, {...post, mode: "no-cors"}, {...post, headers: {"content-type": "application/json"}},
                     {...post, headers: {authorization: "Bearer x"}}]) {
    try { found.push(await (await fetch(`http://${host}/api/models`, how)).text()); } catch (error) { found.push(""); }
  }
  found.push(JSON.stringify(sessionStorage), JSON.stringify(localStorage), document.cookie, document.referrer);
  const channel = new BroadcastChannel("bertscope-key");
  const heard = new Promise(resolve => {
    channel.onmessage = ({data}) => resolve(JSON.stringify(data));
    setTimeout(() => resolve(""), 1000);
  });
  channel.postMessage("key?");
  found.push(await heard);
  const opened = window.open(`http://${host}/`);
  try { found.push(String(opened.location.href), JSON.stringify(opened.sessionStorage)); } catch (error) { found.push(""); }
  return found;
}
"""


class Hostile(BaseHTTPRequestHandler):
    """Notes whatever a browser sends, and sets cookies."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.server.seen.append(f"{self.path} {self.headers}")
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.send_header("content-length", "4")
        for cookie in self.server.cookies:
            self.send_header("set-cookie", f"{cookie}; path=/")
        self.end_headers()
        self.wfile.write(b"<p>x")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def hostile() -> Iterator[ThreadingHTTPServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hostile)
    server.seen, server.cookies = [], ODD
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_it_gets_nothing_that_gives_rights(visit: Visit, page: Page, hostile: ThreadingHTTPServer) -> None:
    watched = visit("#models")
    watched.expected = ("127.0.0.1", "Failed to load resource")  # The owner's own tab goes to the other server at the end.
    owner = watched.tab
    expect(owner.get_by_role("row").first).to_be_visible()
    other = owner.context.new_page()
    other.goto(f"http://127.0.0.1:{hostile.server_port}/")
    gained = other.evaluate(ATTEMPTS, page.host)
    seen = "\n".join([*hostile.seen, *gained])
    assert hostile.seen
    assert KEY not in seen
    assert "models/" not in seen
    owner.goto(f"http://127.0.0.1:{hostile.server_port}/")
    assert KEY not in "\n".join([*hostile.seen, *owner.evaluate(ATTEMPTS, page.host)])
    for name, value in all_that_was_sent(hostile):
        connection = HTTPConnection("127.0.0.1", page.port, timeout=granted(60))
        headers = {"Origin": f"http://{page.host}", "Content-Type": "application/json", name: value}
        connection.request("POST", "/api/models", b"{}", headers)
        assert connection.getresponse().status == 401
        connection.close()


def all_that_was_sent(hostile: ThreadingHTTPServer) -> Iterator[tuple[str, str]]:
    """Every header that the hostile server got of the browser, to be sent again."""
    for text in hostile.seen:
        for line in text.partition(" ")[2].splitlines():
            name, found, value = line.partition(": ")
            if found and name.lower() not in ("host", "connection", "content-length"):
                yield name, value


def test_its_cookies_lock_nobody_out(visit: Visit, page: Page, hostile: ThreadingHTTPServer) -> None:
    tab = visit("#models").tab
    expect(tab.get_by_role("row").first).to_be_visible()
    hostile.cookies = ODD + LARGE
    other = tab.context.new_page()
    other.goto(f"http://127.0.0.1:{hostile.server_port}/")
    assert len(tab.context.cookies(f"http://{page.host}")) >= len(LARGE)
    tab.reload()
    expect(tab.get_by_role("row").first).to_be_visible()
    fresh = tab.context.new_page()
    fresh.goto(page.address + "#models")
    expect(fresh.get_by_role("row").first).to_be_visible()
