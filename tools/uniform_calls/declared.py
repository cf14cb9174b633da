"""Reads declared calls: the arguments that a method has."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tools.protos.rules import Contract, Field

SHARED = ("interventions", "reference_texts", "truncate")
"""Fields of most requests, which come last."""


@dataclass(frozen=True)
class Argument:
    """An argument of a method: its type and its default, as they are written; None without a default."""

    name: str
    type: str
    default: str | None

    def __str__(self) -> str:
        return f"{self.name}: {self.type}" + ("" if self.default is None else f" = {self.default}")


ARGUMENTS = {
    argument.name: argument
    for argument in (
        Argument("interventions", "Interventions", "()"),
        Argument("reference_texts", "str | Iterable[str]", "()"),
        Argument("on_progress", "OnTexts | None", "None"),
        Argument("on_rejected", "OnRejected | None", "None"),
        Argument("timeout", "float | None", "None"),
    )
}
"""Arguments that are not made from the rules of a field."""


@dataclass(frozen=True)
class Declared:
    """A declared call."""

    function: ast.FunctionDef
    contract: Contract

    @property
    def decorator(self) -> ast.Call:
        found = self.function.decorator_list[0]
        if not isinstance(found, ast.Call):
            raise ValueError(f"{self.function.name} is not declared by a function of bertscope.rpc.uniform")
        return found

    @property
    def shape(self) -> str:
        return ast.unparse(self.decorator.func)

    def given(self, name: str) -> str:
        """Returns an argument of the decorator, as it is written; "" if it has none."""
        return next((ast.unparse(word.value) for word in self.decorator.keywords if word.arg == name), "")

    def listed(self, name: str) -> list[str]:
        """Returns the names in an argument of the decorator."""
        return self.given(name).strip("'\"").split()

    @property
    def rpc(self) -> str:
        return self.given("rpc").strip("'") or "".join(word.capitalize() for word in self.function.name.split("_"))

    @cached_property
    def message(self) -> str:
        """The request's full name."""
        return next(name for (_, rpc), name in self.contract.requests.items() if rpc == self.rpc)

    @property
    def module(self) -> str:
        """The generated module with its messages."""
        return Path(self.contract.messages[self.message].file).stem + "_pb2"

    @cached_property
    def positional(self) -> list[Argument]:
        """The arguments that may be given by position."""
        arguments = self.function.args
        without_default = len(arguments.args) - len(arguments.defaults)
        return list(_arguments(arguments.args, [*[None] * without_default, *arguments.defaults]))[1:]

    @cached_property
    def named(self) -> list[Argument]:
        """The declared ones that are given by name."""
        return list(_arguments(self.function.args.kwonlyargs, self.function.args.kw_defaults))

    def fields(self, of_items: set[str]) -> list[Field]:
        """Returns the fields of the request that are arguments."""
        return [
            field
            for field in self.contract.messages[self.message].fields
            if field.name not in of_items and ((field.items or field.rules).kind != "message" or field.name == "interventions")
        ]

    def of_field(self, field: Field) -> Argument:
        """Returns the argument for a field."""
        declared = {argument.name: argument for argument in (*self.positional, *self.named)}
        return declared.get(field.name) or ARGUMENTS.get(field.name) or Argument(field.name, *_type(field))

    def arguments(self, of_items: set[str]) -> list[Argument]:
        """Returns the arguments by name, in their order."""
        fields = [self.of_field(field) for field in self.fields(of_items)]
        first = [argument for argument in fields if argument.name not in (*SHARED, *(one.name for one in self.positional))]
        known = {argument.name for argument in fields}
        shared = [argument for name in SHARED for argument in fields if argument.name == name]
        found = [*first, *(one for one in self.named if one.name not in known), *shared]
        order = self.listed("order")
        return sorted(found, key=lambda argument: order.index(argument.name) if argument.name in order else len(order))


def _arguments(names: list[ast.arg], defaults: list[ast.expr | None]) -> Iterator[Argument]:
    for name, default in zip(names, defaults, strict=True):
        kind = ast.unparse(name.annotation) if name.annotation else ""
        yield Argument(name.arg, kind, None if default is None else ast.unparse(default).replace("'", '"'))


def _type(field: Field) -> tuple[str, str]:
    """Returns the type and the default of an argument that only the contract tells of."""
    kind = (field.items or field.rules).kind
    if field.name == "model" or field.name.endswith("_model"):
        return "str | Model | None", "None"
    if field.items is not None:
        return ("str | Iterable[str] | None" if kind == "text" else "Numbers | None"), "None"
    if kind == "bool":
        return ("bool | None", "None") if field.optional else ("bool", "False")
    if kind == "enum":
        raise ValueError(f"{field.name} is one of several names: declare it, with its type")
    return {"double": "float | None", "float": "float | None", "text": "str | None"}.get(kind, "SupportsIndex | None"), "None"
