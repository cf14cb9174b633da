"""Makes instances of the client's classes from the types of their fields, for tests of what all of them do."""

import dataclasses
import datetime
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any

import bertscope
import numpy as np

TEXT, NUMBER, SHARE = "some text that goes on for a while " * 4, 37, 0.4375
PROVENANCE = bertscope.Provenance("models/m", "sha256:" + "0" * 64, "torch", "cpu", "fp32", {"torch": "2"}, "zero_based")
SIMPLE: dict[Any, Any] = {
    str: TEXT,
    int: NUMBER,
    float: SHARE,
    bool: True,
    bytes: b"abc",
    typing.SupportsIndex: NUMBER,
    bertscope.Provenance: PROVENANCE,
}
SIMPLE[datetime.datetime] = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)


def made(kind: Any) -> Any:
    """Returns a value of a type: lists of 20 items, arrays of 60 numbers, every optional field there."""
    if kind in SIMPLE:
        return SIMPLE[kind]
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return made(next(each for each in arguments if each is not type(None)))
    if origin is typing.Literal:
        return arguments[0]
    if origin is np.ndarray or kind is np.ndarray:
        return np.linspace(0, 1, 60, dtype=np.float32).reshape(3, 4, 5)
    if origin is tuple:
        return tuple(map(made, arguments)) if arguments[-1] is not Ellipsis else tuple(made(arguments[0]) for _ in range(20))
    if origin in (frozenset, set):
        return frozenset([made(arguments[0])])
    if origin in (Mapping, dict) or (isinstance(origin, type) and issubclass(origin, Mapping)):
        return {made(arguments[0]): made(arguments[1])}
    if origin in (Sequence, list):
        return [made(arguments[0]) for _ in range(20)]
    if dataclasses.is_dataclass(kind) or hasattr(kind, "_fields"):
        hints = typing.get_type_hints(kind)
        names = [field.name for field in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else kind._fields
        return kind(**{name: made(hints[name]) for name in names})
    if hasattr(kind, "__value__"):
        return made(kind.__value__)
    raise TypeError(f"nothing is made of {kind!r}")
