"""Describes operations as tools, in so few characters that an agent can hold all of them; `describe` tells the rest."""

import json
import re
from collections import deque
from collections.abc import Iterator
from typing import Any

from mcp import types

from bertscope_workbench.agents.arguments import HOLDERS
from bertscope_workbench.agents.contract import TOLD, Operation, Schema, schemas

SCHEMA_CHARACTERS = 1000
"""The longest schema of a request in a list of tools, unless the request's own fields take most of it. Messages that do not fit
are named, and told by `describe`."""

HELD_CHARACTERS = 500
"""So much of the messages that a request holds is shown, however long the request is."""

DESCRIPTION_CHARACTERS = 250
FIELD_CHARACTERS = 90
LEFT_OUT = {"pattern", "format", "contentEncoding", "x-bertscope-range", "x-bertscope-default"}
MOST_UINT32 = 2**32 - 1
SHARED: Schema = TOLD["shared"]

A_TEXT = {"description": "A text; [text, second text] for a pair."}
SENTENCE = re.compile(r"(?<=\.)\s+(?=[A-Z`])")

SEARCH, CALL, DESCRIBE, READ_RESULT = "search_tools", "call_tool", "describe", "read_result"

FINDERS, HELPERS = (tuple(map(types.Tool.model_validate, TOLD[name])) for name in ("finders", "helpers"))


def tool(operation: Operation) -> types.Tool:
    """Returns the tool of an operation: its hints are those of the rpc's policy."""
    return types.Tool(
        name=operation.name,
        description=_description(operation),
        input_schema=input_schema(operation.schema),
        annotations=types.ToolAnnotations(
            read_only_hint=operation.reads,
            destructive_hint=not operation.reads,
            idempotent_hint=operation.idempotent,
            open_world_hint=False if operation.reads else None,
        ),
    )


def _description(operation: Operation) -> str:
    remarks = []
    if operation.role == "admin":
        remarks.append("Changes the server: needs the role admin.")
    if operation.work == "whole_device":
        remarks.append("Takes a device from all other callers while it measures.")
    told = operation.description.partition("Errors: ")[0]
    return " ".join((shortened(told, DESCRIPTION_CHARACTERS), *remarks))


def shortened(text: str, most: int) -> str:
    """Returns as many of the first sentences as fit, but at least one."""
    sentences = SENTENCE.split(" ".join(text.split()))
    kept = sentences[0]
    for sentence in sentences[1:]:
        if len(kept) + 1 + len(sentence) > most:
            break
        kept = f"{kept} {sentence}"
    return kept


def input_schema(name: str, most: int = SCHEMA_CHARACTERS) -> Schema:
    """Returns the schema of a request, with the messages that it holds as far as they fit, the nearest first."""
    root = _short(schemas()[name])
    root["properties"] = {field: SHARED.get(field, schema) for field, schema in root.get("properties", {}).items()}
    definitions: dict[str, Schema] = {}
    size, waiting, named = _size(root), deque(_references(root)), set()
    most = max(most, size + HELD_CHARACTERS)
    while waiting:
        each = waiting.popleft()
        if each in definitions or each in named:
            continue
        short = _short(schemas()[each])
        if (
            "enum" in short or _stands_for_text(short) or size + _size(short) > most
        ):  # the names of an enum are told where it is used
            named.add(each)
            continue
        definitions[each] = short
        size += _size(short)
        waiting.extend(_references(short))
    found = {key: value for key, value in _resolved(root, definitions).items() if key != "description"}
    if definitions:
        found["$defs"] = {each: _resolved(short, definitions) for each, short in definitions.items()}
    return found


def description(name: str) -> Any:
    """Returns the schema of a message or an enum as the contract has it, with those that it holds directly. Raises KeyError."""
    whole = schemas()[name]
    held = {each: schemas()[each].get("description", "") for each in _references(whole)}
    return {"name": name, **whole} | ({"types": held} if held else {})


def _short(schema: Any) -> Any:
    """Returns a schema without what takes room and rarely helps."""
    if isinstance(schema, list):
        return [_short(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    found: Schema = {}
    for key, value in schema.items():
        if key == "properties":
            found[key] = {name: _short(field) for name, field in value.items()}
        elif key == "description" and isinstance(value, str):
            found[key] = shortened(value.partition("\n\n")[0], FIELD_CHARACTERS)
        elif key not in LEFT_OUT and not (key == "maximum" and value == MOST_UINT32):
            found[key] = _short(value)
    return found


def _resolved(schema: Any, definitions: dict[str, Schema]) -> Any:
    """Returns a schema whose references are those of a tool; a type that did not fit is named."""
    if isinstance(schema, list):
        return [_resolved(part, definitions) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" not in schema:
        return {key: _resolved(value, definitions) for key, value in schema.items()}
    name = schema["$ref"].rpartition("/")[2]
    rest = {key: value for key, value in schema.items() if key != "$ref"}
    if name in definitions:
        return {"$ref": f"#/$defs/{name}", **rest}
    said = rest.pop("description", "")
    whole = schemas()[name]
    if names := whole.get("enum"):
        return {"type": "string", **({"description": said} if said else {}), "enum": _meant(names), **rest}
    if whole.get("properties", {}).keys() == {"text", "textPair"}:
        return {**A_TEXT, **rest}
    kind = {} if _stands_for_text(whole) else {"type": "object"}
    return {**kind, "description": " ".join(filter(None, (said, f"Type {name}: see `{DESCRIBE}`."))), **rest}


def _meant(names: list[str]) -> list[str]:
    """Returns the short names of an enum ("zero" for MODE_ZERO), without the one of a field that is left out."""
    prefix = next((name.removesuffix("UNSPECIFIED") for name in names if name.endswith("_UNSPECIFIED")), "")
    return [name.removeprefix(prefix).lower() for name in names if not name.endswith("_UNSPECIFIED")]


def _stands_for_text(schema: Schema) -> bool:
    """Returns whether agents may write a text alone in the place of a message."""
    return any(name in schema.get("properties", {}) for name in HOLDERS)


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        if isinstance(target := schema.get("$ref"), str):
            yield target.rpartition("/")[2]
        for part in schema.values():
            yield from _references(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from _references(part)


def _size(schema: Schema) -> int:
    return len(json.dumps(schema, separators=(",", ":"), ensure_ascii=False))
