"""The server of the Model Context Protocol: lists the tools, and answers their calls."""

import asyncio
import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from bertscope import BertscopeError
from bertscope._version import __version__
from bertscope.errors import invalid_argument
from mcp import types
from mcp.server import Server, ServerRequestContext
from mcp.shared.exceptions import MCPError

from bertscope_workbench.agents import budget, contract, finding, prompts, tools
from bertscope_workbench.agents.arguments import request
from bertscope_workbench.agents.calls import Calls
from bertscope_workbench.agents.contract import TOLD, Operation, operations
from bertscope_workbench.agents.results import Results

INSTRUCTIONS: str = TOLD["instructions"]
MORE = "search_tools finds {more} more, which call_tool calls"
MODELS, ALL_TOOLS, RESULTS = "bertscope://models", "bertscope://tools", "bertscope://results/"
JSON = "application/json"
SHOWN_ENTRIES = 200
"""How many entries of a list read_result shows unless it is asked for another number."""


class Tools:
    """The tools of one bertscope server."""

    def __init__(
        self, calls: Calls, chosen: Sequence[Operation], results: Results, most: int, listed: Sequence[Operation] | None = None
    ) -> None:
        """Takes the operations that agents may call, and those of them that are `listed`: all unless given. Answers are cut to
        `most` characters."""
        self._calls, self._results, self._budget = calls, results, most
        self._chosen = {each.name: each for each in chosen}
        self._listed = list(chosen if listed is None else listed)

    @property
    def more(self) -> int:
        """The number of tools that are found by a search alone."""
        return len(self._chosen) - len(self._listed)

    async def list(self, _: ServerRequestContext[Any], __: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        """Answers tools/list."""
        finders = tools.FINDERS if self.more else ()
        return types.ListToolsResult(tools=[*finders, *tools.HELPERS, *map(tools.tool, self._listed)])

    async def call(self, context: ServerRequestContext[Any], params: types.CallToolRequestParams) -> types.CallToolResult:
        """Answers tools/call. An error of the call is an answer, which says what to do."""
        arguments = params.arguments or {}
        try:
            if params.name == tools.DESCRIBE:
                return _said(self._describe(arguments))
            if params.name == tools.READ_RESULT:
                return _said(await asyncio.to_thread(self._read, arguments))
            if params.name == tools.SEARCH:
                found = finding.search(str(arguments.get("query", "")), self._chosen.values())
                return _said({"tools": found} if found else {"tools": [], "all": [*self._chosen]})
            name, given = params.name, arguments
            if name == tools.CALL:
                name, given = str(arguments.get("name", "")), arguments.get("arguments") or {}
                if not name:
                    raise invalid_argument("name", 'is missing; write {"name": "sweep_sites", "arguments": {...}}')
            operation = self._operation(name)
            document = await self._calls.ask(operation, request(operation, given), context.session.report_progress)
            return _said(await asyncio.to_thread(self._cut, operation.name, document))
        except BertscopeError as error:
            return types.CallToolResult(content=[_text(failure(error))], is_error=True)
        except OSError as error:
            wrong = invalid_argument("results", f"{error.filename or self._results.folder}: {error.strerror}")
            return types.CallToolResult(content=[_text(failure(wrong))], is_error=True)

    async def resources(
        self, _: ServerRequestContext[Any], __: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        """Answers resources/list: the models, all tools, and the full results of this process."""
        found = [
            types.Resource(uri=MODELS, name="models", description="The models of the server", mime_type=JSON),
            types.Resource(uri=ALL_TOOLS, name="tools", description="All tools, a line each", mime_type=JSON),
        ]
        found += [types.Resource(uri=RESULTS + name, name=name, mime_type=JSON) for name in self._results.names()]
        return types.ListResourcesResult(resources=found)

    async def resource(
        self, context: ServerRequestContext[Any], params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        """Answers resources/read, within the budget of an answer. Raises MCPError for one that is not there."""
        uri = str(params.uri)
        try:
            if uri == MODELS:
                asked = operations()["list_models"]
                found = await self._calls.ask(asked, asked.request(), context.session.report_progress)
            elif uri == ALL_TOOLS:
                found = {"tools": [finding.line(each) for each in self._chosen.values()]}
            else:
                found = await asyncio.to_thread(self._results.read, uri.removeprefix(RESULTS), "")
        except BertscopeError as error:
            raise MCPError(types.INVALID_PARAMS, f"{uri}: {error}") from None
        text = budget.text(budget.reduced(found, self._budget).answer)
        return types.ReadResourceResult(contents=[types.TextResourceContents(uri=uri, mime_type=JSON, text=text)])

    def _operation(self, name: str) -> Operation:
        if name in self._chosen:
            return self._chosen[name]
        if name in operations():
            raise invalid_argument(
                "name", f"{name} is not offered here; start bertscope mcp with --tools all, or name it there"
            )
        near = difflib.get_close_matches(name, self._chosen, 3)
        raise invalid_argument("name", f"no tool is called {name!r}" + (f"; near to it: {', '.join(near)}" if near else ""))

    def _cut(self, name: str, document: dict[str, Any]) -> dict[str, Any]:
        found = budget.reduced(document, self._budget)
        if not found.cuts:
            return {"answer": found.answer}
        path = self._results.write(name, document)
        return {"answer": found.answer, "cut": _few(found.cuts), "full_result": path}

    def _describe(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        name = str(arguments.get("name", ""))
        operation = operations().get(name)
        try:
            found = tools.description(operation.schema if operation else name)
        except KeyError:
            near = difflib.get_close_matches(name, [*self._chosen, *contract.schemas()], 3)
            said = f"there is no tool and no type {name!r}" + (f"; near to it: {', '.join(near)}" if near else "")
            raise invalid_argument("name", said) from None
        return {"tool": name, "about": operation.description, "role": operation.role, "request": found} if operation else found

    def _read(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        pointer, start = str(arguments.get("pointer", "")), _whole(arguments, "start", 0)
        part = self._results.read(str(arguments.get("result", "")), pointer)
        if isinstance(part, (dict, str, int, float)) or part is None:
            found = budget.reduced(part, self._budget)
            return {"answer": found.answer} | ({"cut": _few(found.cuts)} if found.cuts else {})
        count = _whole(arguments, "count", SHOWN_ENTRIES)
        rows = part[start : start + count]
        shown = rows if isinstance(rows, list) else rows.tolist()
        while shown and len(budget.text(plain := budget.all_of(shown))) > self._budget:
            shown = shown[: len(shown) // 2]
        if not shown and len(rows):
            raise invalid_argument("pointer", f"one entry takes more than {self._budget:,} characters; name a part of it")
        return {"answer": plain if shown else [], "start": start, "shown": len(shown), "entries": len(part)}


def make_server(served: Tools, *, target: str, folder: str, most: int) -> Server[Any]:
    """Returns the server, to be run on any transport."""
    return Server(
        "bertscope",
        version=__version__,
        title="bertscope",
        instructions=INSTRUCTIONS.format(
            target=target, folder=folder, budget=most, more=MORE.format(more=served.more) if served.more else "all are listed"
        ),
        on_list_tools=served.list,
        on_call_tool=served.call,
        on_list_prompts=_prompts,
        on_get_prompt=_prompt,
        on_list_resources=served.resources,
        on_read_resource=served.resource,
    )


async def _prompts(_: ServerRequestContext[Any], __: types.PaginatedRequestParams | None) -> types.ListPromptsResult:
    return types.ListPromptsResult(prompts=prompts.prompts())


async def _prompt(_: ServerRequestContext[Any], params: types.GetPromptRequestParams) -> types.GetPromptResult:
    try:
        return prompts.prompt(params.name, params.arguments or {})
    except BertscopeError as error:
        raise MCPError(types.INVALID_PARAMS, str(error)) from None


def failure(error: BertscopeError) -> dict[str, Any]:
    """Returns an error as an agent reads it: the message says what to do."""
    found: dict[str, Any] = {"status": error.code.name, "reason": error.reason, "message": str(error)}
    if error.field_violations:
        found["fields"] = {each.field: each.description for each in error.field_violations}
    if error.retry_after is not None:
        found["retry_after_seconds"] = error.retry_after
    if error.request_id:
        found["request_id"] = error.request_id
    return {"error": found}


def _whole(arguments: Mapping[str, Any], name: str, default: int) -> int:
    value = arguments.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise invalid_argument(name, "must be a whole number, 0 or more")
    return value


def _few(cuts: Sequence[str], most: int = 10) -> list[str]:
    return [*cuts[:most], *([f"and {len(cuts) - most} more places"] if len(cuts) > most else [])]


def _said(document: Any) -> types.CallToolResult:
    return types.CallToolResult(content=[_text(document)])


def _text(document: Any) -> types.TextContent:
    return types.TextContent(text=budget.text(document))
