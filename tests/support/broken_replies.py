"""What readers of replies say of replies that break the contract: one place of a good reply is broken at a time."""

import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from google.protobuf.message import Message

from tests.support.stored_outputs import Name, outcome, short


def refusals(read: Callable[[list[Any]], Any], *good: Message) -> str:
    """Breaks one place of good messages at a time, reads them, and returns what is said of which; what is read comes first."""
    found: dict[str, list[str]] = {}
    read([_copied(message) for message in good])
    for index, message in enumerate(good):
        changes: list[tuple[str, Sequence[Message]]] = []
        if len(good) > 1:
            changes = [(f"{index} missing", []), (f"{index} twice", [message, message])]
        name = f"{index}." if len(good) > 1 else ""
        changes += [(f"{name}{what}", [broken]) for what, broken in breakages(message)]
        for what, instead in changes:
            answer = outcome(lambda instead=instead, index=index: read([*good[:index], *instead, *good[index + 1 :]]))
            found.setdefault(str(answer) if isinstance(answer, Name) else "read", []).append(what)
    lines = []
    for said, places in sorted(found.items(), key=lambda item: item[0] != "read"):
        lines += [said, *textwrap.wrap(", ".join(places), 120, initial_indent="    ", subsequent_indent="    ")]
    return "\n".join(lines)


def breakages(message: Message, at: str = "") -> Iterable[tuple[str, Message]]:
    """Yields copies of a message in which one place is missing, one too many, or beyond all bounds, each with its name."""
    for field, value in message.ListFields():
        name, inner = f"{at}{field.name}", field.message_type
        if inner is not None and inner.GetOptions().map_entry:
            continue
        if field.is_repeated:
            first, *others = value
            yield f"{name} -1", _with(message, field, value[:-1])
            yield f"{name} +1", _with(message, field, [*value, first])
            if inner is None:
                yield from ((f"{name}[0]={short(one)}", _with(message, field, [one, *others])) for one in _beyond(field))
            elif inner.name not in ("Provenance", "Token"):
                yield from ((what, _with(message, field, [one, *others])) for what, one in breakages(first, f"{name}[0]."))
        elif inner is not None:
            yield f"no {name}", _with(message, field, None)
            if inner.name not in ("Provenance", "Timestamp"):
                yield from ((what, _with(message, field, one)) for what, one in breakages(value, f"{name}."))
        else:
            for one in _beyond(field, value):
                yield f"{name}={'-1 byte' if isinstance(one, bytes) else short(one)}", _with(message, field, one)


def _beyond(field: Any, value: Any = None) -> list[Any]:
    if field.type == field.TYPE_BYTES:
        return [value[:-1]]
    if field.cpp_type in (field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE):
        return [float("nan")]
    if field.cpp_type in (field.CPPTYPE_STRING, field.CPPTYPE_BOOL):
        return []
    return [0, 99] if field.enum_type is not None or value else [99]


def _copied(message: Message) -> Any:
    copy = type(message)()
    copy.CopyFrom(message)
    return copy


def _with(message: Message, field: Any, value: Any) -> Message:
    """Returns a copy of a message with another value of a field, or without one."""
    copy = _copied(message)
    copy.ClearField(field.name)
    if field.is_repeated:
        getattr(copy, field.name).extend(value)
    elif field.message_type is None:
        setattr(copy, field.name, value)
    elif value is not None:
        getattr(copy, field.name).CopyFrom(value)
    return copy
