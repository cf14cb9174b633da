"""Imports transformers' code of models as late as possible."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from bertscope_service.lasting_imports import lasting_imports


@cache
def import_shared_code() -> None:
    """Imports what all models of transformers share, when the first one is made: a second or two of one core, in a thread that
    loads models. A server whose models ONNX Runtime runs never needs it."""
    with lasting_imports():
        import_module("transformers.modeling_utils")
