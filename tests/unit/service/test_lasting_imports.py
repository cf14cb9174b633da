"""Libraries are imported without collections, and what they made is never scanned again."""

import gc
from contextlib import suppress

import pytest
from bertscope_service.lasting_imports import lasting_imports


@pytest.mark.parametrize("after", [["enable"], []], ids=["collects", "does not"])
def test_garbage_is_collected_afterwards_as_before(monkeypatch: pytest.MonkeyPatch, after: list[str]) -> None:
    """Also after an import that failed, whose objects are not kept."""
    done: list[str] = []
    monkeypatch.setattr(gc, "isenabled", lambda: bool(after))
    monkeypatch.setattr("atexit.register", lambda _: None)
    for name in ("disable", "freeze", "enable"):
        monkeypatch.setattr(gc, name, lambda name=name: done.append(name))
    with lasting_imports():
        done.append("import")
    with suppress(ImportError), lasting_imports():
        raise ImportError
    assert done == ["disable", "import", "freeze", *after, "disable", *after]
