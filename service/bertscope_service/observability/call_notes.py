"""Collects notes about a call while it is answered, for its line in the log."""

from __future__ import annotations

from contextvars import ContextVar

_models: ContextVar[list[str] | None] = ContextVar("models", default=None)


def begin() -> list[str]:
    """Returns a list that receives the names of the models of the current task's call."""
    noted: list[str] = []
    _models.set(noted)
    return noted


def note_model(name: str) -> None:
    """Notes a model that the call runs on or loads; names that only its caller knows are not noted."""
    noted = _models.get()
    if noted is not None and name not in noted:
        noted.append(name)
