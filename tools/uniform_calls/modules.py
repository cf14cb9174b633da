"""Writes the module that is generated from the declarations of one module."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from tools.async_to_sync import CLIENT, formatted
from tools.protos.classes import Described
from tools.protos.rules import Contract
from tools.uniform_calls.arguments import docstring
from tools.uniform_calls.declared import ARGUMENTS, Declared

HEADER = "# Generated from {name} by `make client`. Do not edit: change that file, or the contract.\n"
LAST = {
    "each": ("on_rejected", "timeout"),
    "total": ("on_progress", "on_rejected", "timeout"),
    "trained": ("on_progress", "timeout"),
    "extracted": ("on_rejected", "timeout"),
}
"""Arguments of each shape."""

IMPORTS = """
from __future__ import annotations
from collections.abc import AsyncGenerator, Callable, Iterable
from functools import partial
from typing import SupportsIndex
from bertscope.rpc.async_connection import AsyncConnection
from bertscope.rpc.async_extraction import AsyncTensorStreams
from bertscope.rpc.async_many_texts import AsyncManyTexts, OnTexts
from bertscope.rpc.async_streams import joined, last, whole
from bertscope.rpc.splitting import OnRejected
from bertscope.v1 import {modules}
from bertscope.values.interventions import Interventions
from bertscope.values.messages import Numbers, with_items
from bertscope.values.models import Model
from bertscope.values.requests import request_of
"""
"""Imports of generated modules; those that a module does not need are left out."""

EACH = """
    def {name}_stream({signature},) -> AsyncGenerator[{answer}, None]:
        {docstring}
        request = {request}
        {returned}

    {name} = whole({name}_stream, {whole})
"""
TOTAL = """
    async def {name}({signature},) -> {answer}:
        {docstring}
        request = {request}
        asked = {asked}
        answers = self._answers(asked, {answers})
        return await self._sum(answers, {answer}.merge, asked.total, on_progress)
"""
TRAINED = """
    async def {name}({signature},) -> {answer}:
        {docstring}
        request = {request}
        messages = self._stream(request, {response}, timeout)
        return await last(messages, {assembler}.add, on_progress, {answer}, {lacking})
"""
EXTRACTED = """
    def {name}({signature},) -> AsyncGenerator[{answer}, None]:
        {docstring}
        request = {request}
        return self._extract({build}, {response}, {assembler}, {asked}, timeout, on_rejected)
"""
METHODS = {"each": EACH, "total": TOTAL, "trained": TRAINED, "extracted": EXTRACTED}
BASES = (("AsyncTensorStreams", {"extracted"}), ("AsyncManyTexts", {"each", "total"}), ("AsyncConnection", {"trained"}))
"""Classes with what methods of some shapes need, those that have most first."""


@dataclass(frozen=True)
class Declarations:
    """The declarations of a module."""

    path: Path
    contract: Contract
    fields: Mapping[str, Mapping[str, Described]]
    """The contract's fields in Python; see `classes.read`."""

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

    @property
    def generated(self) -> Path:
        """The path of the generated module."""
        return self.path.with_name(self.path.name.replace("uniform", "calls"))

    def parameters(self, name: str) -> list[tuple[str, bool]]:
        """Returns the parameters of a function or a class that is imported here, and whether each is given by name alone."""
        return _parameters(self.tree, name)

    def of_items(self, call: Declared) -> dict[str, str]:
        """Returns how the arguments that items are made of are given, by name: shared ones as the request has them."""
        return {} if call.shape == "trained" else self._given(call, ast.unparse(call.decorator.args[0]), 0)

    def to_finish(self, call: Declared) -> dict[str, str]:
        """Returns how the arguments that complete a request are given, by name."""
        name = ast.unparse(call.decorator.args[0]) if call.shape == "trained" else call.given("finish")
        return self._given(call, name, 1) if name else {}

    def _given(self, call: Declared, function: str, first: int) -> dict[str, str]:
        found = {}
        for name, by_name in self.parameters(function)[first:]:
            value = f"request.{name}" if name in call.listed("shared") else name
            found[name] = f"{name}={value}" if by_name else value
        return found

    def own(self, call: Declared) -> set[str]:
        """Returns the names of fields that are no arguments of the request's builder."""
        given = self.of_items(call) | self.to_finish(call)
        return {name for name in given if name not in call.listed("shared")} | set(call.listed("without"))

    def methods(self) -> str:
        """Returns the module with the methods."""
        shapes = {call.shape for call in self.calls}
        base = next(name for name, needed in BASES if shapes & needed)
        described = _docstring(ast.get_docstring(self.kind) or "", 1)
        lines = f"class Async{self.kind.name}({base}):\n    {described}\n"
        body = lines + "".join(self._method(call) for call in self.calls)
        return self._module(f"\n\n{body}")

    def _module(self, body: str) -> str:
        own = [ast.unparse(node) for node in self.tree.body if isinstance(node, ast.ImportFrom)]
        declared = "\n".join(line for line in own if "bertscope.rpc.uniform" not in line and "__future__" not in line)
        modules = ", ".join(sorted({call.module for call in self.calls}))
        docstring = (ast.get_docstring(self.tree) or "").partition("\n")[0].replace("Declares the calls", "Makes the calls")
        source = f'"""{docstring}"""\n{IMPORTS.format(modules=modules)}{declared}\n{body}'
        return HEADER.format(name=self.path.name) + formatted(source, self.generated, also="F401")

    def _method(self, call: Declared) -> str:
        hidden = {*self.of_items(call), *self.to_finish(call), *call.listed("without")}
        last = [replace(ARGUMENTS[name], **self._progress(call, name)) for name in LAST[call.shape]]
        named = [*call.arguments(hidden), *last]
        items = self.of_items(call).keys() - set(call.listed("shared"))
        taken = {field.name for field in call.fields(self.own(call))}
        name = call.function.name
        sent = ", ".join(f"{one.name}={one.name}" for one in (*call.positional, *named) if one.name in taken)
        return METHODS[call.shape].format(
            name=name,
            signature=", ".join(["self", *map(str, call.positional), "*", *map(str, named)]),
            answer=ast.unparse(call.function.returns or ast.Constant(None)),
            docstring=_docstring(docstring(call, [*call.positional, *named], items, self.fields), 2),
            request=self._finished(call, f"request_of({call.module}.{call.rpc}Request, {sent})"),
            response=f"{call.module}.{call.rpc}Response",
            **(self._training(call) if call.shape == "trained" else self._asking(call)),
        )

    def _progress(self, call: Declared, name: str) -> dict[str, str]:
        """Returns the type of an argument, if it is that of training."""
        if call.shape != "trained" or name != "on_progress":
            return {}
        return {"type": f"Callable[[{ast.unparse(call.decorator.args[2])}], object] | None"}

    def _finished(self, call: Declared, request: str) -> str:
        function = ast.unparse(call.decorator.args[0]) if call.shape == "trained" else call.given("finish")
        return f"{function}({', '.join([request, *self.to_finish(call).values()])})" if function else request

    def _training(self, call: Declared) -> dict[str, str]:
        assembler = ast.unparse(call.decorator.args[1])
        request = "request" if self.parameters(assembler) else ""
        return {"assembler": f"{assembler}({request})", "lacking": call.given("lacking").replace("'", '"')}

    def _asking(self, call: Declared) -> dict[str, str]:
        asked, read, *whole = map(ast.unparse, call.decorator.args)
        own = call.given("build")
        build = f"partial({own}, request)" if own else 'partial(with_items, request, "inputs")'
        pace = "large=bool(request.reference_texts)"
        for word, method in (("text", "_pace"), ("work", "_pace_by")):
            if call.given(word):
                kind = f", {call.given('pace')}" if call.given("pace") else ""
                pace = f"pace=self.{method}({call.given(word)}, request.reference_texts, timeout{kind})"
        if call.shape == "total":
            items = len(self.parameters(read)) > 2
            arguments = ", ".join(["reply", "request", "items"][: len(self.parameters(read))])
            read = f"lambda {'items' if items else '_'}, reply: [{read}({arguments})]"
        elif self.parameters(read)[:1] == [("request", False)] and call.shape == "each":
            read = f"partial({read}, request)"
        given = f"{asked}({', '.join(self.of_items(call).values())})"
        sections = call.given("sections")
        rejected = "sections.rejecting(on_rejected)" if sections else "on_rejected"
        answers = f"{build}, {call.module}.{call.rpc}Response, {read}, timeout, {pace}, on_rejected={rejected}"
        answered = f"self._answers({given}, {answers})"
        joining = f"sections = {sections}()\n        return joined({answered}, sections.add)"
        returned = joining if sections else f"return {answered}"
        return {
            "asked": given,
            "answers": answers,
            "returned": returned,
            "build": build,
            "assembler": read,
            "whole": ", ".join(whole),
        }


def _parameters(tree: ast.Module, name: str) -> list[tuple[str, bool]]:
    """Returns the parameters of a function or a class that a module has or imports; a class may have those of its base."""
    own = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    if name not in own:
        sources = (node for node in tree.body if isinstance(node, ast.ImportFrom))
        source = next((node.module or "" for node in sources if any(alias.name == name for alias in node.names)), "")
        path = CLIENT.parent / f"{source.replace('.', '/')}.py"
        return _parameters(ast.parse(path.read_text(encoding="utf-8")), name) if path.is_file() else []
    found = own[name]
    if isinstance(found, ast.FunctionDef):
        return _named(found.args, found.args.args)
    for node in found.body:
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            return _named(node.args, node.args.args[1:])
    return _parameters(tree, ast.unparse(found.bases[0]).partition("[")[0]) if found.bases else []


def _named(arguments: ast.arguments, positional: list[ast.arg]) -> list[tuple[str, bool]]:
    return [(one.arg, False) for one in positional] + [(one.arg, True) for one in arguments.kwonlyargs]


def _docstring(text: str, depth: int) -> str:
    """Returns a docstring as it is written, at a depth of indentation."""
    first, *rest = text.split("\n")
    indent = "    " * depth
    lines = [f'"""{first}', *(f"{indent}{line}".rstrip() for line in rest)]
    return "\n".join([*lines, f'{indent}"""'] if rest else [f'{lines[0]}"""'])
