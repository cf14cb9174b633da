"""The page's server on a free port, in a thread, and a browser's requests to it."""

import json
from contextlib import AbstractContextManager
from http.client import HTTPConnection, HTTPResponse
from typing import Any, Self

from bertscope.aio import AsyncClient
from bertscope_workbench.explore.server import listen, make_server

from tests.support.harness import LoopThread
from tests.support.patience import granted

KEY = "the-key"


class Page(AbstractContextManager["Page"]):
    """A page over the server at `target`; its client has these options."""

    def __init__(self, target: str, **options: Any) -> None:
        self._loop = LoopThread()
        self._client = AsyncClient(target, retries=0, **options)
        self._listener = listen(0)
        self.port = self._listener.getsockname()[1]
        self.host = f"127.0.0.1:{self.port}"
        self.address = f"http://{self.host}/#key={KEY}"
        self._server = make_server(self._client, target=target, key=KEY, port=self.port)

    def __enter__(self) -> Self:
        self._done = self._loop.submit(self._server.serve(sockets=[self._listener]))
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._done.result(granted(30))
        self._loop.run(self._client.close())
        self._loop.close()

    def request(self, method: str, path: str, body: bytes | None = None, **headers: str) -> HTTPResponse:
        """Makes one request with the key, unless another Authorization is given; header names have `_` for `-`.

        The reply is not read.
        """
        connection = HTTPConnection("127.0.0.1", self.port, timeout=granted(60))
        usual = {"Authorization": f"Bearer {KEY}", "Host": self.host}
        given = usual | {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, given)
        return connection.getresponse()

    def open(self, question: str, body: object) -> HTTPResponse:
        """Asks a question as the page does; its events are still to be read."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.request("POST", f"/api/{question}", data, Origin=f"http://{self.host}", Content_Type="application/json")

    def ask(self, question: str, body: object) -> list[dict[str, Any]]:
        """Asks a question, and returns its events; the reply is checked to be a success."""
        reply = self.open(question, body)
        text = reply.read().decode()
        assert reply.status == 200, text
        return [json.loads(line) for line in text.splitlines()]

    def refusal(self, question: str, body: object) -> dict[str, Any]:
        """Asks a question that is to fail at once; returns the error."""
        (event,) = self.ask(question, body)
        error: dict[str, Any] = event["error"]
        return error
