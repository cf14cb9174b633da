"""Who reaches the page: each request that may not is refused, and says why."""

import asyncio

import pytest
from bertscope.explore.access import HEADERS, MAX_BODY_BYTES, Access
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse

KEY, PORT = "the-key", 6260
HOST = f"127.0.0.1:{PORT}"


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


@pytest.fixture
def cookie(access):
    """The cookie that the key is exchanged for."""
    code, headers, _ = answer(access, query=f"key={KEY}")
    assert (code, headers["location"]) == (303, "/")
    value, *flags = headers["set-cookie"].split("; ")
    assert {flag.lower() for flag in flags} >= {"httponly", "samesite=strict"}
    assert KEY not in value
    return value


def posted(**changes):
    usual = {"method": "POST", "path": "/api/models", "body": b"{}", "origin": f"http://{HOST}"}
    return usual | {"content_type": "application/json", "content_length": "2"} | changes


def test_the_page_is_for_whoever_has_the_cookie(access, cookie):
    assert answer(access, cookie=cookie)[::2] == (200, b"passed")
    assert answer(access, cookie=cookie, **posted())[::2] == (200, b"{}")
    assert answer(access, cookie=f"other=1; {cookie}", host=f"localhost:{PORT}")[0] == 200


@pytest.mark.parametrize(
    ("code", "request_"),
    [
        (401, {"cookie": None}),
        (401, {"cookie": "bertscope_explore_6260=wrong"}),
        (401, {"cookie": f"bertscope_explore_6260={KEY}"}),
        (401, {"cookie": "bertscope_explore_6261=x; =;;"}),
        (401, {"cookie": "bertscope_explore_6260=\xe9"}),
        (401, {"query": "key=wrong"}),
        (401, {"query": "key=%ff"}),
        (401, {"query": "key=the-key", "path": "/static/js/main.js", "cookie": None}),
        (421, {"host": f"rebound.example:{PORT}"}),
        (421, {"host": "127.0.0.1:1"}),
        (421, {"host": None}),
        (405, {"method": "PUT"}),
        (405, {"method": "OPTIONS"}),
        (401, posted(cookie=None)),
        (401, posted(cookie=None, query=f"key={KEY}")),
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
def test_a_request_that_may_not_pass(access, cookie, code, request_):
    found, headers, body = answer(access, **({"cookie": cookie} | request_))
    assert found == code, body
    assert b"passed" not in body
    assert headers.items() >= HEADERS.items()
    assert not any(name.startswith("access-control") for name in headers)
    assert KEY.encode() not in body


def test_a_body_longer_than_it_said_is_cut_off(access, cookie):
    assert answer(access, cookie=cookie, **posted(body=b" " * (MAX_BODY_BYTES + 1)))[2] == b"cut off"


def test_every_reply_forbids_foreign_scripts(access, cookie):
    policy = answer(access, cookie=cookie)[1]["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy


def test_two_pages_have_two_cookies():
    first, second = (Access(inner, key=KEY, port=port) for port in (PORT, PORT + 1))
    cookies = [
        answer(page, query=f"key={KEY}", host=f"127.0.0.1:{port}")[1]["set-cookie"].partition(";")[0]
        for page, port in ((first, PORT), (second, PORT + 1))
    ]
    assert len({cookie.partition("=")[0] for cookie in cookies}) == 2
    assert answer(first, cookie="; ".join(cookies))[0] == 200
    assert answer(first, cookie=cookies[1])[0] == 401
