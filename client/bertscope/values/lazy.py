"""Makes the results of large replies: faster than a dataclass's constructor does, and not before they are used."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Result = TypeVar("Result")


def made(kind: type[Result], **fields: Any) -> Result:
    """Returns a frozen dataclass with these fields, or `_place` for some. The constructor, which sets each, is slower."""
    result = object.__new__(kind)
    object.__setattr__(result, "__dict__", fields)
    return result


class ReadOnUse:
    """A result with fields that are read from its message when one of them is first used, and then kept.

    Objects for every prediction of a reply cost more than the call, and many callers use only some of them. Until then, the
    result keeps the whole reply in memory. Threads that share it all get the same objects.

    It is `made` without these fields, and with `_place`: a sequence of messages, and the index of its own.
    """

    @staticmethod
    def _read(message: Any) -> dict[str, Any]:
        """Returns the fields that the message has."""
        raise NotImplementedError

    if not TYPE_CHECKING:  # A type checker would believe that every name is an attribute.

        def __getattr__(self, name: str) -> Any:
            fields = self.__dict__
            place = fields.get("_place")
            if place is not None and not name.startswith("_"):
                messages, index = place
                for field, value in self._read(messages[index]).items():
                    fields.setdefault(field, value)
                fields.pop("_place", None)  # Last: another thread needs either the place or the values.
            if name not in fields:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
            return fields[name]

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(cast("DataclassInstance", self))}
