"""The page's routes: the page itself, its scripts and styles, and one address for each question."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from importlib import resources

from bertscope import AsyncClient
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

from bertscope_workbench.explore.access import Access, refusal
from bertscope_workbench.explore.body import Body
from bertscope_workbench.explore.questions import QUESTIONS, Question
from bertscope_workbench.explore.streams import Event, EventReply

STATIC = resources.files("bertscope_workbench.explore") / "static"


def make_app(client: AsyncClient, *, target: str, key: str, port: int) -> Starlette:
    """Returns the application that answers on this port to who has the key.

    It asks `client`, and shows `target` as the server's address: to who may ask, as it may be the name of a host that others
    should not learn of.
    """
    page = (STATIC / "index.html").read_text(encoding="utf-8")

    async def index(_: Request) -> Response:
        return HTMLResponse(page)

    async def server(_: Request) -> Response:
        return JSONResponse({"target": target})

    routes = [
        Route("/", index),
        Route("/api/server", server, methods=["POST"]),
        Route("/api/{question}", _Questions(client), methods=["POST"]),
        Mount("/static", StaticFiles(directory=str(STATIC))),
    ]
    return Starlette(routes=routes, middleware=[Middleware(Access, key=key, port=port)])


class _Questions:
    """An ASGI application that answers `POST /api/<question>`."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        question = QUESTIONS.get(request.path_params["question"])
        if question is None:
            await JSONResponse(refusal("NOT_FOUND", "the page has no such question"), 404)(scope, receive, send)
            return
        try:
            raw = await request.body()
        except ClientDisconnect:
            return
        await EventReply(self._events(question, raw))(scope, receive, send)

    async def _events(self, question: Question, raw: bytes) -> AsyncGenerator[Event, None]:
        async with aclosing(question(self._client, Body.parse(raw))) as events:
            async for event in events:
                yield event
