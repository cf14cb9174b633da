"""Defers the import of a client's methods, and of all that they need, until they are used."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class Deferred:
    """A method of a client, which lies in a class of calls. The first use imports it, and puts it into its own place."""

    def __init__(self, module: str, calls: str) -> None:
        self._module, self._calls = module, calls

    def __set_name__(self, owner: type, name: str) -> None:
        self._owner, self._name = owner, name

    def __get__(self, instance: Any, owner: type) -> Any:
        """Returns the method of a client, or the function of the class."""
        method = vars(getattr(import_module(self._module), self._calls))[self._name]
        setattr(self._owner, self._name, method)
        return method.__get__(instance, owner)
