"""Writes the modules that are generated from the declarations of one module."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tools.async_to_sync import CLIENT, formatted
from tools.protos.rules import Contract, Field
from tools.uniform_calls.declared import ARGUMENTS, Argument, Declared, checked

HEADER = "# Generated from {name} by `make client`. Do not edit: change that file, or the contract.\n"
LAST = {"each": ("on_rejected", "timeout"), "total": ("on_progress", "on_rejected", "timeout")}
"""Arguments of each shape."""

IMPORTS = """
from __future__ import annotations
from collections.abc import AsyncGenerator, Iterable
from functools import partial
from typing import SupportsIndex
from bertscope.rpc.async_many_texts import AsyncManyTexts, OnTexts
from bertscope.rpc.async_streams import whole
from bertscope.rpc.splitting import OnRejected
from bertscope.v1 import {modules}
from bertscope.values import validation
from bertscope.values.messages import Interventions, Numbers, enum_value, head_interventions, with_items
from bertscope.values.models import Model, model_name
"""
"""Imports of generated modules; those that a module does not need are left out."""


BUILDER = '''

def {name}_request(*, {signature},) -> {request}:
    """Returns the request of {rpc}, without its items."""
    return {request}({values})
'''
EACH = """
    def {name}_stream({signature},) -> AsyncGenerator[{answer}, None]:
        {docstring}
        request = {name}_request({sent})
        return self._answers({asked}, {answers})

    {name} = whole({name}_stream, {whole})
"""
TOTAL = """
    async def {name}({signature},) -> {answer}:
        {docstring}
        request = {name}_request({sent})
        asked = {asked}
        answers = self._answers(asked, {answers})
        return await self._sum(answers, {answer}.merge, asked.total, on_progress)
"""
METHODS = {"each": EACH, "total": TOTAL}


@dataclass(frozen=True)
class Declarations:
    """The declarations of a module."""

    path: Path
    contract: Contract
    enums: Mapping[str, str]
    """The generated module of each enum, by its full name."""

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.path.read_text(encoding="utf-8"), self.path.name)

    @cached_property
    def kind(self) -> ast.ClassDef:
        """The class that they are in."""
        return next(node for node in self.tree.body if isinstance(node, ast.ClassDef))

    @cached_property
    def calls(self) -> list[Declared]:
        return [Declared(node, self.contract) for node in self.kind.body if isinstance(node, ast.FunctionDef)]

    def beside(self, part: str) -> Path:
        """Returns the path of a generated module."""
        return self.path.with_name(self.path.name.replace("uniform", part))

    def parameters(self, name: str) -> list[tuple[str, bool]]:
        """Returns the parameters of a function that the declarations import, and whether each is given by name alone."""
        source = next(
            node.module or ""
            for node in self.tree.body
            if isinstance(node, ast.ImportFrom) and any(alias.name == name for alias in node.names)
        )
        path = CLIENT.parent / f"{source.replace('.', '/')}.py"
        body = ast.parse(path.read_text(encoding="utf-8")).body
        arguments = next(node.args for node in body if isinstance(node, ast.FunctionDef) and node.name == name)
        return [(one.arg, False) for one in arguments.args] + [(one.arg, True) for one in arguments.kwonlyargs]

    def of_items(self, call: Declared) -> dict[str, str]:
        """Returns how the arguments that items are made of are given, by name: shared ones as the request has them."""
        found = {}
        for name, by_name in self.parameters(ast.unparse(call.decorator.args[0])):
            value = f"request.{name}" if name in call.listed("shared") else name
            found[name] = f"{name}={value}" if by_name else value
        return found

    def own(self, call: Declared) -> set[str]:
        """Returns the names of fields that are no arguments of the request's builder."""
        return {name for name, given in self.of_items(call).items() if "request." not in given}

    def requests(self) -> str:
        """Returns the module that builds the requests."""
        return self._module("requests", "Builds the requests", "".join(map(self._builder, self.calls)))

    def methods(self) -> str:
        """Returns the module with the methods."""
        builders = ", ".join(f"{call.function.name}_request" for call in self.calls)
        module = ".".join(self.beside("requests").relative_to(CLIENT.parent).with_suffix("").parts)
        lines = f"class Async{self.kind.name}(AsyncManyTexts):\n    {_docstring(self.kind, 1)}\n"
        body = lines + "".join(self._method(call) for call in self.calls)
        return self._module("calls", "Makes the calls", f"from {module} import {builders}\n\n\n{body}")

    def _module(self, part: str, what: str, body: str) -> str:
        own = [ast.unparse(node) for node in self.tree.body if isinstance(node, ast.ImportFrom)]
        declared = "\n".join(line for line in own if "bertscope.rpc.uniform" not in line and "__future__" not in line)
        modules = {call.module for call in self.calls} | set(self.enums.values())
        needed = ", ".join(sorted(module for module in modules if f"{module}." in body))
        docstring = (ast.get_docstring(self.tree) or "").partition("\n")[0].replace("Declares the calls", what)
        source = f'"""{docstring}"""\n{IMPORTS.format(modules=needed)}{declared}\n{body}'
        path = self.beside(part)
        return HEADER.format(name=self.path.name) + formatted(source, path, also="F401")

    def _builder(self, call: Declared) -> str:
        fields = [(field, call.of_field(field)) for field in call.fields(self.own(call))]
        taken = {field.name for field, _ in fields}
        arguments = [argument for argument in (*call.positional, *call.arguments(self.own(call))) if argument.name in taken]
        return BUILDER.format(
            name=call.function.name,
            rpc=call.rpc,
            signature=", ".join(map(str, arguments)),
            request=f"{call.module}.{call.rpc}Request",
            values="".join(f"{field.name}={self._checked(call, field, argument)}, " for field, argument in fields),
        )

    def _checked(self, call: Declared, field: Field, argument: Argument) -> str:
        positive = not field.optional or field.name in call.listed("positive")
        return checked(field, argument, self.enums, positive=positive)

    def _method(self, call: Declared) -> str:
        items = self.of_items(call)
        named = [*call.arguments(set(items)), *(ARGUMENTS[name] for name in LAST[call.shape])]
        taken = {field.name for field in call.fields(self.own(call))}
        asked, read, *whole = map(ast.unparse, call.decorator.args)
        build, pace = 'partial(with_items, request, "inputs")', "large=bool(request.reference_texts)"
        if call.given("build"):
            build = f"partial({call.given('build')}, request)"
        for word, method in (("text", "_pace"), ("work", "_pace_by")):
            if call.given(word):
                pace = f"pace=self.{method}({call.given(word)}, request.reference_texts, timeout)"
        if call.shape == "total":
            read = f"lambda _, reply: [{read}(reply{', request' if len(self.parameters(read)) > 1 else ''})]"
        return METHODS[call.shape].format(
            name=call.function.name,
            signature=", ".join(["self", *map(str, call.positional), "*", *map(str, named)]),
            answer=ast.unparse(call.function.returns or ast.Constant(None)),
            docstring=_docstring(call.function, 2),
            sent=", ".join(f"{one.name}={one.name}" for one in (*call.positional, *named) if one.name in taken),
            asked=f"{asked}({', '.join(items.values())})",
            answers=f"{build}, {call.module}.{call.rpc}Response, {read}, timeout, {pace}, on_rejected=on_rejected",
            whole=", ".join(whole),
        )


def _docstring(node: ast.ClassDef | ast.FunctionDef, depth: int) -> str:
    """Returns a docstring as it is written, at a depth of indentation."""
    first, *rest = (ast.get_docstring(node) or "").split("\n")
    indent = "    " * depth
    lines = [f'"""{first}', *(f"{indent}{line}".rstrip() for line in rest)]
    return "\n".join([*lines, f'{indent}"""'] if rest else [f'{lines[0]}"""'])
