"""Chooses the model to whose replicas a call goes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from google.protobuf.message import Message

from bertscope_service.errors import NotFound, Unsupported

T = TypeVar("T")

NAMES = ("model", "model_name", "name")
"""The fields in which requests name their model."""


def choose(models: Mapping[str, T], request: Message) -> T:
    """Returns the model that a request names, with or without "models/"; the first one if it names none. Raises NotFound."""
    field = next((name for name in NAMES if name in request.DESCRIPTOR.fields_by_name), None)
    name = getattr(request, field) if field else ""
    if not name:
        return next(iter(models.values()))
    found = models.get(name.removeprefix("models/"))
    if found is None:
        loaded = ", ".join(f"models/{one}" for one in models)
        raise NotFound(f"model {name!r} is not loaded; loaded: {loaded}", "MODEL_NOT_FOUND", model=name)
    return found


def refused(method: str) -> Unsupported:
    """Returns the error for a method that needs all models in one process: there is no such process here."""
    message = (
        f"{method} is not to be had on Ray Serve: the configuration of the application says which models there are; "
        "change it and deploy it again, or ask a server that `bertscope serve` started"
    )
    return Unsupported(message, "MODELS_FIXED", method=method)
