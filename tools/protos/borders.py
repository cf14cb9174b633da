"""Requests on both sides of the borders that the contract's rules draw, made from these rules."""

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from bertscope_service.api.limits import RequestLimits
from google.protobuf import descriptor_pool
from google.protobuf.message_factory import GetMessageClass

from tools.protos.rules import NUMBERS, Contract, Field, Rules

Place = tuple[tuple[str, bool], ...]
"""The fields on the way to a message, each with whether it is a list, of which the first entry is meant."""


class Border(NamedTuple):
    """A request that breaks one rule, or just keeps it.

    `name`: its field with the rule; `rule`: the same with the message that declares the field; `local`: a caller can tell, too.
    """

    name: str
    rule: str
    request: Any
    kept: bool
    local: bool = True


class Borders:
    """Makes requests of a contract. Each is the smallest that keeps the rules, but for one value."""

    def __init__(self, contract: Contract, limits: RequestLimits) -> None:
        self.contract = contract
        self.limits = limits
        self._made: set[str] = set()
        self._entries: dict[str, Any] = {}

    def smallest(self, name: str) -> Any:
        """Returns a message that keeps its rules."""
        message: Any = GetMessageClass(descriptor_pool.Default().FindMessageTypeByName(name))()
        for field in self.contract.messages[name].fields:
            if field.items is not None:
                getattr(message, field.name).extend(self.entry(field, number) for number in range(int(field.rules.least or 0)))
            elif field.rules.kind == "message" and field.rules.required:
                getattr(message, field.name).CopyFrom(self.smallest(field.type))
            elif not field.optional and (usual := _usual(field.rules)) is not None:
                setattr(message, field.name, usual)
        return message

    def entry(self, field: Field, number: int) -> Any:
        """Returns the entry of a list with this number."""
        if field.items is None:
            raise ValueError(f"{field.name} is no list")
        if field.items.kind == "message":
            if field.type not in self._entries:
                self._entries[field.type] = self.smallest(field.type)
            return self._entries[field.type]
        if field.items.kind == "text":
            return f"a{number}"
        return 0.5 if field.items.over else number + int(field.items.least or 0)

    def of(self, name: str) -> Iterator[Border]:
        """Yields the borders of a kind of request, but for those of messages that another one has, too."""
        yield Border("smallest", "", self.smallest(name), kept=True)
        yield from self._in(name, name, (), frozenset())

    def _in(self, root: str, name: str, place: Place, seen: frozenset[str]) -> Iterator[Border]:
        if name in seen:
            return
        for field in self.contract.messages[name].fields:
            for what, value, kept, local in self._values(field):
                rule = f"{name.rpartition('.v1.')[2]}.{field.name}: {what}"
                if rule in self._made:
                    continue
                self._made.add(rule)
                request = self.smallest(root)
                message = self._reached(request, place)
                here = "".join(f"{step}[0]." if several else f"{step}." for step, several in place)
                if field.items is not None:
                    del getattr(message, field.name)[:]
                    getattr(message, field.name).extend(value)
                elif value is None:
                    message.ClearField(field.name)
                else:
                    setattr(message, field.name, value)
                yield Border(f"{here}{field.name}: {what}", rule, request, kept, local)
            if field.type in self.contract.messages:
                yield from self._in(root, field.type, (*place, (field.name, field.items is not None)), seen | {name})

    def _reached(self, message: Any, place: Place) -> Any:
        for step, several in place:
            descriptor = message.DESCRIPTOR.fields_by_name[step].message_type
            if several:
                entries = getattr(message, step)
                if not entries:
                    entries.add().CopyFrom(self.smallest(descriptor.full_name))
                message = entries[0]
            else:
                if not message.HasField(step):
                    getattr(message, step).CopyFrom(self.smallest(descriptor.full_name))
                message = getattr(message, step)
        return message

    def _values(self, field: Field) -> Iterator[tuple[str, Any, bool, bool]]:
        """Yields a name, a value, whether it keeps the rules, and whether a caller can tell."""
        if field.items is None:
            yield from self._single(field.rules)
            return
        rules, items = field.rules, field.items
        most = int(rules.most) if rules.most is not None else getattr(self.limits, rules.limit) if rules.limit else None
        fill: Callable[[int], list[Any]] = lambda count: [self.entry(field, number) for number in range(count)]  # noqa: E731
        if rules.least:
            yield "too few", fill(int(rules.least) - 1), False, True
        if most is not None:
            yield "most", fill(most), True, True
            yield "too many", fill(most + 1), False, rules.most is not None
        if rules.unique and not items.bound:
            yield "twice", [self.entry(field, 0)] * 2 + fill(int(rules.least or 0)), False, True
        if items.kind != "message":
            for what, value, kept, local in self._single(items):
                yield f"entry {what}", [*fill(max(1, int(rules.least or 0))), value], kept, local

    def _single(self, rules: Rules) -> Iterator[tuple[str, Any, bool, bool]]:
        if rules.kind == "text":
            most = rules.most if rules.most is not None else math.inf
            if rules.limit:
                own = getattr(self.limits, rules.limit)
                if own < most:
                    yield "too long for the server", "x" * (own + 1), False, False
            if most < math.inf:
                yield "longest", "x" * int(most), True, True
                yield "too long", "x" * int(most + 1), False, True
            if rules.not_blank or rules.least:
                yield "empty", "", False, True
            if rules.not_blank:
                yield "blank", "\u00a0 \n", False, True
        elif rules.kind == "enum" and rules.numbers:
            yield "unknown", 99, False, True
            for number in sorted({0, *range(max(rules.numbers))} - {*rules.numbers}):
                yield f"not {number}", number, False, True
        elif rules.kind in NUMBERS and not rules.bound:
            yield from _numbers(rules)


def _usual(rules: Rules) -> Any:
    """Returns a value for a field that may not keep its own; None if it may."""
    if rules.kind == "text" and (rules.not_blank or rules.least):
        return "/a" if rules.bound == "an absolute path" else "a"
    if rules.kind == "text" and rules.bound and not rules.default:
        return "a"
    if rules.kind == "enum" and rules.numbers and 0 not in rules.numbers:
        return rules.numbers[0]
    if rules.kind in NUMBERS and rules.over:
        return 0.5
    return None


def _numbers(rules: Rules) -> Iterator[tuple[str, Any, bool, bool]]:
    whole = rules.kind.startswith("uint")
    step = 1 if whole else 0.0001
    if rules.least is not None:
        least = int(rules.least) if whole else float(rules.least)
        yield "least", least, not rules.over, True
        if not (rules.zero and least == 1) and (not whole or least):
            yield "too little", least - step, False, True
    if rules.most is not None:
        most = int(rules.most) if whole else float(rules.most)
        yield "most", most, not rules.under, True
        yield "too much", most + step, False, True
    if not whole and (rules.finite or rules.least is not None or rules.most is not None):
        yield "not a number", math.nan, False, True
        yield "infinite", math.inf, False, True
