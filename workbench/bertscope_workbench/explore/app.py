"""The page's routes: the page itself, its scripts and styles, and one address for each question."""

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

    async def ask(request: Request) -> Response:
        question = QUESTIONS.get(request.path_params["question"])
        if question is None:
            return JSONResponse(refusal("NOT_FOUND", "the page has no such question"), 404)
        try:
            return EventReply(_events(client, question, await request.body()))
        except ClientDisconnect:
            return Response()  # Nobody reads it.

    routes = [
        Route("/", index),
        Route("/api/server", server, methods=["POST"]),
        Route("/api/{question}", ask, methods=["POST"]),
        Mount("/static", StaticFiles(directory=str(STATIC))),
    ]
    return Starlette(routes=routes, middleware=[Middleware(Access, key=key, port=port)])


async def _events(client: AsyncClient, question: Question, raw: bytes) -> AsyncGenerator[Event, None]:
    async with aclosing(question(client, Body.parse(raw))) as events:
        async for event in events:
            yield event
