"""Decides which questions reach the page's server: those of scripts that have the key of the printed address, on this machine.

The page lends its owner's token to whoever may ask, so that other programs' pages in the same browser, other users of the
machine and other hosts must not. The key is in the fragment of the printed address, which no browser sends anywhere; the page's
own script keeps it for its tab and sends it as a header. It is no cookie: browsers give the cookies of a host to every port of
it, and so to every other server on this machine.
"""

from collections.abc import Mapping
from hmac import compare_digest
from types import MappingProxyType
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
"""Names of this machine that a Host header may have: another name would be DNS rebinding."""
MAX_BODY_BYTES = 1 << 20
LARGE_BODY_BYTES: Mapping[str, int] = MappingProxyType(
    dict.fromkeys(("/api/corpus", "/api/find", "/api/find_means", "/api/find_outstanding", "/api/directions"), 24 << 20)
)
"""Questions that hold a file, or its sentences, may be larger."""
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "connect-src 'self'",
        "form-action 'none'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
"""Sent with every reply."""


class Access:
    """Middleware that answers what may not pass, and passes on the rest.

    A request needs a loopback Host with the page's port. A POST, which is a question, also needs the key as a bearer token,
    the page's own Origin, and JSON of at most 1 MiB, or 24 MiB with a file. What a GET reads is the same for everybody: the
    package's own files.
    """

    def __init__(self, app: ASGIApp, *, key: str, port: int) -> None:
        """`key` is in the printed address."""
        self._app = app
        self._authorization = f"Bearer {key}".encode()
        self._hosts = {f"{name}:{port}" for name in LOOPBACK}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request, or passes it on."""
        if scope["type"] != "http":
            return

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        headers = Headers(scope=scope)
        answer = self._answer(scope, headers)
        app = self._app if answer is None else answer
        await app(scope, limited(receive, _most_bytes(scope)), sending)

    def _answer(self, scope: Scope, headers: Headers) -> Response | None:
        """Returns the reply to a request that does not pass; None for one that does."""
        method, host = scope["method"], headers.get("host", "").lower()
        if host not in self._hosts:
            return _refusal(421, "this page answers only on its own address on this machine", method)
        if method in ("GET", "HEAD"):
            return None
        if method != "POST":
            return _refusal(405, f"{method} is not answered here", method)
        # Latin-1, as headers are decoded: a token may hold any byte.
        if not compare_digest(headers.get("authorization", "").encode("latin-1"), self._authorization):
            return _refusal(401, "open the address that `bertscope explore` printed: it has the key to this page", method)
        return self._post_answer(headers, host, _most_bytes(scope))

    @staticmethod
    def _post_answer(headers: Headers, host: str, most: int) -> Response | None:
        if headers.get("origin") != f"http://{host}" or headers.get("sec-fetch-site", "same-origin") != "same-origin":
            return _refusal(403, "only this page itself may ask", "POST")
        if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            return _refusal(415, "send application/json", "POST")
        length = headers.get("content-length", "")
        if not length.isascii() or not length.isdigit() or int(length) > most:
            return _refusal(413, f"send a body of a known length, at most {most} bytes", "POST")
        return None


def _most_bytes(scope: Scope) -> int:
    return LARGE_BODY_BYTES.get(scope["path"], MAX_BODY_BYTES)


def limited(receive: Receive, most: int) -> Receive:
    """Returns a `receive` that ends a body that is longer than it may be, whatever its length was said to be."""
    left = most

    async def receiving() -> Message:
        nonlocal left
        message = await receive()
        if message["type"] == "http.request":
            left -= len(message.get("body", b""))
            if left < 0:
                return {"type": "http.disconnect"}
        return message

    return receiving


def refusal(status: str, message: str, **more: Any) -> dict[str, Any]:
    """Returns an error as the page reads it."""
    usual: dict[str, Any] = {
        "status": status,
        "reason": "",
        "message": message,
        "request_id": None,
        "retry_after": None,
        "fields": [],
    }
    return {"error": usual | more}


def _refusal(code: int, message: str, method: str) -> Response:
    if method == "POST":
        return JSONResponse(refusal("PAGE_REFUSED", message), code)
    return PlainTextResponse(f"bertscope explore: {message}\n", code)
