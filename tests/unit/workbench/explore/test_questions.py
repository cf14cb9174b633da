"""Bodies of questions, results as JSON, streams of events."""

import asyncio
import dataclasses
import datetime
import json

import numpy as np
import pytest
from bertscope.errors import InvalidArgument
from bertscope_workbench.explore.body import Body
from bertscope_workbench.explore.plain import plain
from bertscope_workbench.explore.streams import EventReply, error_event


@pytest.mark.parametrize(
    ("raw", "read", "field"),
    [
        (b"", None, "body"),
        (b"[]", None, "body"),
        (b"\xff", None, "body"),
        (b"[" * 100_000, None, "body"),
        (b"{}", lambda body: body.text("text"), "text"),
        (b'{"text": 1}', lambda body: body.text("text"), "text"),
        (b'{"text": 1}', lambda body: body.optional_text("text"), "text"),
        (b'{"yes": 1}', lambda body: body.flag("yes"), "yes"),
        (b'{"n": 1.5}', lambda body: body.whole("n"), "n"),
        (b'{"n": true}', lambda body: body.whole("n"), "n"),
        (b'{"x": NaN}', lambda body: body.number("x"), "x"),
        (b'{"x": 1' + 400 * b"0" + b"}", lambda body: body.number("x"), "x"),
        (b'{"x": "1"}', lambda body: body.number("x"), "x"),
        (b'{"texts": ["a", 1]}', lambda body: body.texts("texts"), "texts"),
        (b'{"names": {"a": 1}}', lambda body: body.names("names"), "names"),
        (b'{"layers": [true]}', lambda body: body.wholes("layers"), "layers"),
        (b'{"parts": [1]}', lambda body: body.parts("parts"), "parts[0]"),
        (b'{"other": 1}', lambda body: body.done(), "other"),
    ],
)
def test_a_wrong_body_names_its_field(raw, read, field):
    with pytest.raises(InvalidArgument) as caught:
        read(Body.parse(raw))
    assert caught.value.field_violations[0].field == field


@dataclasses.dataclass
class Result:
    name: str
    when: datetime.datetime
    values: np.ndarray


def test_results_become_json():
    when = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)
    found = plain({1: Result("x", when, np.array([[1.5, np.nan]])), "none": None, "pair": (True, np.float32(0.5))})
    assert found == {
        "1": {"name": "x", "when": "2026-01-02T00:00:00+00:00", "values": [[1.5, None]]},
        "none": None,
        "pair": [True, 0.5],
    }
    with pytest.raises(TypeError):
        plain(object())


async def reply(events, *, gone_after=None):
    """Sends the reply; the browser goes away after so many parts. Returns what was sent."""
    sent, left = [], asyncio.Event()

    async def receive():
        await left.wait()
        return {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)
        if gone_after is not None and len(sent) >= gone_after:
            left.set()

    await EventReply(events)({"type": "http", "method": "POST", "headers": []}, receive, send)
    return sent


def lines(sent):
    return [json.loads(line) for line in b"".join(part.get("body", b"") for part in sent).splitlines()]


def test_a_bug_tells_the_browser_nothing(caplog):
    event = error_event(RuntimeError("a secret"))
    assert "a secret" not in json.dumps(event)
    assert "a secret" in caplog.text


def test_a_browser_that_goes_away_ends_the_question():
    over = []

    async def endless():
        try:
            yield {"number": 1}
            await asyncio.Event().wait()
        finally:
            over.append(True)

    sent = asyncio.run(reply(endless(), gone_after=2))
    assert over
    assert lines(sent) == [{"number": 1}]
