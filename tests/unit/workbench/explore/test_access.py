"""Who reaches the page: each request that may not is refused, and says why."""

import asyncio

import pytest
from bertscope_workbench.explore.access import HEADERS, MAX_BODY_BYTES, Access
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse

KEY, PORT = "the-key", 6260
HOST = f"127.0.0.1:{PORT}"
BEARER = f"Bearer {KEY}"


async def inner(scope, receive, send):
    try:
        body = await Request(scope, receive).body()
    except ClientDisconnect:
        body = b"cut off"
    await PlainTextResponse(body or b"passed")(scope, receive, send)


def answer(access, method="GET", path="/", query="", body=b"", **headers):
    """Sends one request; returns the code, the headers and the body of the reply."""
    sent = []
    given = {"host": HOST} | {name.replace("_", "-"): value for name, value in headers.items()}
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in given.items() if value is not None],
    }

    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message):
        sent.append(message)

    asyncio.run(access(scope, receive, send))
    start, *rest = sent
    replied = {name.decode(): value.decode() for name, value in start["headers"]}
    return start["status"], replied, b"".join(message.get("body", b"") for message in rest)


@pytest.fixture
def access():
    return Access(inner, key=KEY, port=PORT)


def posted(**changes):
    usual = {"method": "POST", "path": "/api/models", "body": b"{}", "origin": f"http://{HOST}"}
    return usual | {"authorization": BEARER, "content_type": "application/json", "content_length": "2"} | changes


def test_the_packages_files_are_for_every_browser_and_set_no_cookie(access):
    code, headers, body = answer(access)
    assert (code, body) == (200, b"passed")
    assert "set-cookie" not in headers


@pytest.mark.parametrize("cookie", ['{"a":1}', "a=b; =;;", "\xe9=\xff", "bertscope_explore_6260=x", f"key={KEY}"])
def test_foreign_cookies_change_nothing(access, cookie):
    assert answer(access, **posted(cookie=cookie))[::2] == (200, b"{}")
    assert answer(access, **posted(cookie=cookie, authorization=None))[0] == 401


@pytest.mark.parametrize(
    ("code", "request_"),
    [
        (401, posted(authorization=None)),
        (401, posted(authorization=KEY)),
        (401, posted(authorization="Bearer wrong")),
        (401, posted(authorization="Bearer ")),
        (401, posted(authorization=f"Basic {KEY}")),
        (401, posted(authorization="Bearer \xe9")),
        (401, posted(authorization=None, query=f"key={KEY}")),
        (421, {"host": f"rebound.example:{PORT}"}),
        (421, {"host": "127.0.0.1:1"}),
        (421, {"host": None}),
        (405, {"method": "PUT"}),
        (405, {"method": "OPTIONS"}),
        (403, posted(origin=None)),
        (403, posted(origin="null")),
        (403, posted(origin="http://evil.example")),
        (403, posted(origin=f"http://localhost:{PORT}")),
        (403, posted(sec_fetch_site="cross-site")),
        (403, posted(sec_fetch_site="same-site")),
        (415, posted(content_type="text/plain")),
        (415, posted(content_type=None)),
        (415, posted(content_type="application/x-www-form-urlencoded")),
        (413, posted(content_length=str(MAX_BODY_BYTES + 1))),
        (413, posted(content_length=None)),
        (413, posted(content_length="-1")),
    ],
)
def test_a_request_that_may_not_pass(access, code, request_):
    found, headers, body = answer(access, **request_)
    assert found == code, body
    assert b"passed" not in body
    assert headers.items() >= HEADERS.items()
    assert not any(name.startswith("access-control") for name in headers)
    assert KEY.encode() not in body


def test_a_body_longer_than_it_said_is_cut_off(access):
    assert answer(access, **posted(body=b" " * (MAX_BODY_BYTES + 1)))[2] == b"cut off"


def test_every_reply_forbids_foreign_scripts(access):
    policy = answer(access)[1]["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
