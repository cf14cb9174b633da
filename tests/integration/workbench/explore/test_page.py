"""The page's server over a real bertscope server: its pieces, the questions of the Models view, faults."""

import json
import re

import pytest

from tests.support.bearers import ADMIN, READER, line
from tests.support.fake_server import Waiting, start
from tests.support.page import Page
from tests.support.patience import granted


def test_the_page_and_all_it_asks_for_is_there(page, host):
    text = page.request("GET", "/").read().decode()
    assert host.target not in text  # Everybody on the machine can read the page, but not what it asks.
    assert page.ask("server", {}) == [{"target": host.target}]
    addresses = re.findall(r'(?:src|href)="(/[^"]+)"', text)
    assert len(addresses) >= 5
    for address in addresses:
        reply = page.request("GET", address)
        assert reply.status == 200, address
        assert reply.headers["content-security-policy"].startswith("default-src 'none'")
    assert page.request("GET", "/static/../app.py").status == 404
    assert page.request("GET", "/nothing").status == 404


def test_an_unknown_question(page):
    assert page.open("nothing", {}).status == 404
    assert page.request("GET", "/api/models").status == 405


def test_load_compress_and_unload(launch, checkpoints):
    host = launch()
    with Page(host.target) as page:
        *progress, last = page.ask("load", {"source": str(checkpoints["roberta"]), "model_id": "second"})
        assert all(event["progress"]["stage"] for event in progress)
        assert last["model"]["name"] == "models/second"
        steps = [{"step": "layers", "layers": [0]}, {"step": "magnitude", "share": 0.5}]
        *_, last = page.ask("compress", {"model": "second", "model_id": "small", "steps": steps})
        assert [step["step"] for step in last["model"]["compression"]] == ["layers", "magnitude"]
        loaded = {model["name"] for model in page.ask("models", {})[-1]["models"]}
        assert loaded == {"models/bert", "models/second", "models/small"}
        assert page.ask("unload", {"model": "small"}) == [{"unloaded": "small"}]
        assert len(page.ask("models", {})[-1]["models"]) == 2


def test_each_role_sees_what_it_may_do(launch, tmp_path):
    tokens = tmp_path / "tokens"
    tokens.write_text(line("alice", "read", READER) + line("root", "admin", ADMIN))
    host = launch(tokens_file=tokens)
    for token, expected in ((READER, False), (ADMIN, True)):
        with Page(host.target, token=token) as page:
            reply = page.open("models", {"role": True})
            text = reply.read().decode()
            assert json.loads(text)["may_manage"] is expected
            assert token not in text + str(reply.headers)


@pytest.mark.slow
def test_a_browser_that_goes_away_ends_the_call():
    server = Waiting()
    host = start(server)
    try:
        with Page(server.target) as page:
            reply = page.open("load", {"source": "anything"})
            assert json.loads(reply.readline())["progress"]["detail"] == "waiting"
            reply.close()
            assert server.ended.wait(granted(30))
    finally:
        host.stop(grace=None).wait()
