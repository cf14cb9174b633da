"""Reads the rules of fields from the descriptors: those of buf.validate, and ours (fields.proto)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from google.protobuf.descriptor_pb2 import FieldDescriptorProto

NOT_BLANK = r"[^\s\pZ]"
"""The pattern of texts that must not be blank."""

IF_ZERO = 1
"""buf.validate.IGNORE_IF_ZERO_VALUE: the rules don't hold for 0."""

UNDERSTOOD = {
    "list": {"min_items", "max_items", "unique", "items"},
    "text": {"min_len", "max_len"},
    "enum": {"defined_only", "in", "not_in"},
    "number": {"gt", "gte", "lt", "lte", "finite"},
}
"""The rules of buf.validate that checks are made from, by kind."""

NUMBERS = {"double", "float", "int32", "int64", "uint32", "uint64"}
LIMITS = {1: "texts", 2: "candidates", 3: "text_characters"}
"""The names of a server's limits in api/limits.py, by FieldRules.Limit."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error; "" is the usual one of its kind."""

    reason: str = ""
    problem: str = ""
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of a field, or of an entry of a list."""

    kind: str
    """"list", "text", "bytes", "bool", "message", "enum", or a kind of number ("uint32")."""

    least: float | None = None
    """Lower bound of a number, of the entries of a list or of the characters of a text."""

    most: float | None = None
    over: bool = False
    """True if a number is more than `least`."""

    under: bool = False
    """True if it is less than `most`."""

    finite: bool = False
    zero: bool = False
    """True if a number of 0, or a list without entries, is unset: the lower bound doesn't hold for it."""

    not_blank: bool = False
    unique: bool = False
    values: tuple[str, ...] = ()
    """The names of the values of an enum that are allowed; none without a rule."""

    numbers: tuple[int, ...] = ()
    """Their numbers."""

    limit: str = ""
    """The server's limit; one of LIMITS."""

    required: bool = False
    default: str = ""
    bound: str = ""
    empty: Refusal = Refusal()
    range: Refusal = Refusal()
    repetition: Refusal = Refusal()


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a message; `items` are the rules of the entries of a list, `type` the full name of a message or an enum."""

    name: str
    optional: bool
    rules: Rules
    items: Rules | None = None
    type: str = ""
    required: bool = False


@dataclass(frozen=True, slots=True)
class Message:
    """A message: its full name, and the .proto file that it is in."""

    name: str
    file: str
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class Contract:
    """All messages by their full names, and the request of each rpc by its service and name."""

    messages: Mapping[str, Message]
    requests: Mapping[tuple[str, str], str]

    def within(self, names: Iterable[str]) -> set[str]:
        """Returns these messages and all that they hold."""
        found: set[str] = set()
        waiting = [name for name in names if name in self.messages]
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                waiting += [field.type for field in self.messages[name].fields if field.type in self.messages]
        return found


def read(files: Any) -> Contract:
    """Returns the messages of our .proto files; see files.described."""
    pool = files.DESCRIPTOR.file.pool
    standard, ours = (pool.FindExtensionByName(name) for name in ("buf.validate.field", "bertscope.v1.field"))
    enums = {name: values for file in files.file for name, values in enums_of(file, f".{file.package}")}
    messages: dict[str, Message] = {}
    requests = {}
    for file in files.file:
        if file.package != "bertscope.v1":
            continue
        for name, message in _messages(file.message_type, file.package):
            messages[name] = Message(name, file.name, tuple(_field(field, standard, ours, enums) for field in message.field))
        for service in file.service:
            for method in service.method:
                requests[f"{file.package}.{service.name}", method.name] = method.input_type.removeprefix(".")
    return Contract(messages, requests)


def enums_of(parent: Any, prefix: str) -> Iterator[tuple[str, list[tuple[str, int]]]]:
    """Yields the name of each enum in a file or a message, after a prefix, with the names and numbers of its values."""
    for enum in parent.enum_type:
        yield f"{prefix}.{enum.name}", [(value.name, value.number) for value in enum.value]
    for message in getattr(parent, "message_type", ()) or getattr(parent, "nested_type", ()):
        yield from enums_of(message, f"{prefix}.{message.name}")


def _messages(messages: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    for message in messages:
        name = f"{prefix}.{message.name}"
        yield name, message
        yield from _messages(message.nested_type, name)


def _field(field: Any, standard: Any, ours: Any, enums: Mapping[str, Any]) -> Field:
    rules, own = field.options.Extensions[standard], field.options.Extensions[ours]
    kind, values = _kind(field), enums.get(field.type_name, ())
    several = field.label == FieldDescriptorProto.LABEL_REPEATED
    items = _rules(kind, rules.repeated.items, own.items, field.name, values) if several else None
    type_name = field.type_name.removeprefix(".")
    found = _rules("list" if several else kind, rules, own, field.name, values)
    return Field(field.name, field.HasField("oneof_index"), found, items, type_name, rules.required)


def _kind(field: Any) -> str:
    name = FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()
    return {"string": "text"}.get(name, name)


def _rules(kind: str, standard: Any, own: Any, name: str, values: Any) -> Rules:
    """Returns the rules of a field, or of the entries of a list. Raises ValueError for one that the service would not check."""
    part = {"list": "repeated", "text": "string"}.get(kind, kind)
    given: Any = getattr(standard, part, None)
    blank = kind == "text" and given.pattern == NOT_BLANK
    known = UNDERSTOOD[kind if kind in UNDERSTOOD else "number"] | ({"pattern"} if blank else set())
    unknown = {field.name for field, _ in given.ListFields()} - known if given is not None else set()
    if unknown and not own.bound:
        raise ValueError(f"{name}: no check is made from {', '.join(sorted(unknown))}; say it in `bound`, and check it by hand")
    found: dict[str, Any] = {"limit": LIMITS.get(own.limit, ""), "default": own.default, "bound": own.bound}
    for part in ("empty", "range", "repetition"):
        refusal = getattr(own, part)
        found[part] = Refusal(refusal.reason, refusal.problem, refusal.remedy)
    if kind == "list":
        found |= {"least": _set(given, "min_items"), "most": _set(given, "max_items"), "unique": given.unique}
        found["zero"] = standard.ignore == IF_ZERO
    elif kind == "text":
        found |= {"least": _set(given, "min_len"), "most": _set(given, "max_len"), "not_blank": blank}
        if blank and not given.HasField("max_len"):
            found["limit"] = "text_characters"
    elif kind == "enum" and standard.HasField("enum"):
        chosen = getattr(given, "in")
        allowed = [one for one in values if one[1] not in given.not_in and (one[1] in chosen or not chosen)]
        found |= {"values": tuple(n for n, number in allowed if number), "numbers": tuple(number for _, number in allowed)}
    elif kind in NUMBERS:
        over, under = given.HasField("gt"), given.HasField("lt")
        found |= {"least": given.gt if over else _set(given, "gte"), "over": over}
        found |= {"most": given.lt if under else _set(given, "lte"), "under": under}
        found |= {"finite": getattr(given, "finite", False), "zero": standard.ignore == IF_ZERO}
    return Rules(kind, required=standard.required, **found)


def _set(message: Any, field: str) -> Any:
    return getattr(message, field) if message.HasField(field) else None


def snake(name: str) -> str:
    """Returns a name in small letters: "fill_mask_request" of "FillMaskRequest"."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
