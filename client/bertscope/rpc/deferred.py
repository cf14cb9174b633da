"""Defers the import of a client's methods, and of all that they need, until they are used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import wraps
from importlib import import_module
from inspect import iscoroutinefunction, signature
from typing import Any

from bertscope.errors import BertscopeError, InvalidReply, WrongArgument


class Deferred:
    """A method of a client, which lies in a class of calls. The first use imports it, and puts it into its own place."""

    def __init__(self, module: str, calls: str) -> None:
        self._module, self._calls = module, calls

    def __set_name__(self, owner: type, name: str) -> None:
        self._owner, self._name = owner, name

    def __get__(self, instance: Any, owner: type) -> Any:
        """Returns the method of a client, or the function of the class."""
        method = vars(getattr(import_module(self._module), self._calls))[self._name]
        method = method if self._name.startswith("_") else outermost(method)
        setattr(self._owner, self._name, method)
        return method.__get__(instance, owner)


def outermost(method: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a method whose errors are about the caller's own line: they lack the frames inside of this package, unless the
    server's reply was at fault, and an argument that the method does not have comes with the one that is meant."""

    def called(*args: Any, **kwargs: Any) -> Any:
        with _Outermost(method, kwargs):
            return method(*args, **kwargs)

    async def awaited(*args: Any, **kwargs: Any) -> Any:
        with _Outermost(method, kwargs):
            return await method(*args, **kwargs)

    return wraps(method)(awaited if iscoroutinefunction(method) else called)


class _Outermost:
    __slots__ = ("_kwargs", "_method")

    def __init__(self, method: Callable[..., Any], kwargs: Mapping[str, Any]) -> None:
        self._method, self._kwargs = method, kwargs

    def __enter__(self) -> None:
        """Begins the call."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, BertscopeError) and not isinstance(error, InvalidReply):
            raise error.with_traceback(None)
        if isinstance(error, TypeError):
            known = [name for name in signature(self._method).parameters if name != "self"]
            for name in self._kwargs.keys() - known:
                near = get_close_matches(name, known, 1)
                meant = f"; did you mean {near[0]}?" if near else f"; it has {', '.join(known)}"
                raise WrongArgument(f"{self._method.__name__}() has no argument {name}{meant}") from None
            inner, _, why = str(error).partition("() ")  # "ClozeCalls.fill_mask_stream() missing 1 required ..."
            if inner.startswith(f"{self._method.__qualname__.partition('.')[0]}.") and "._" not in inner:
                raise WrongArgument(f"{self._method.__name__}() {why}") from None
