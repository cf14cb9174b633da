"""Which event loop a server runs on."""

import asyncio
import importlib.util

import pytest
from bertscope_service.rpc.event_loop import new_event_loop


def kind_of_loop() -> str:
    loop = new_event_loop()
    try:
        assert loop.run_until_complete(asyncio.sleep(0, "done")) == "done"
        return type(loop).__module__.partition(".")[0]
    finally:
        loop.close()


def test_uvloop_where_it_is_installed() -> None:
    pytest.importorskip("uvloop", reason="uvloop does not exist for this platform")
    assert kind_of_loop() == "uvloop"


def test_asyncios_own_loop_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert kind_of_loop() == "asyncio"
