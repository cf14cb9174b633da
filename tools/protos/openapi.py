"""Makes the OpenAPI 3.1 description of JSON over HTTP, as Envoy serves it (deploy/envoy), from the paths of the rpcs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tools.protos import schemas
from tools.protos.contract import Rpc
from tools.protos.rules import Contract
from tools.protos.schemas import Schema

PATH = Path("workbench/bertscope_workbench/agents/openapi.json")
"""Part of the workbench, which makes the tools of agents from it."""

VARIABLE = re.compile(r"{(\w+)=models/\*}")
CODES = {
    "INVALID_ARGUMENT": 400,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "ALREADY_EXISTS": 409,
    "FAILED_PRECONDITION": 400,
    "RESOURCE_EXHAUSTED": 429,
    "UNIMPLEMENTED": 501,
    "UNAVAILABLE": 503,
    "DEADLINE_EXCEEDED": 504,
}
"""The status of HTTP for each of gRPC's, as Envoy translates them."""

MEANINGS = {
    400: "The request is wrong, or the model is not in the state for it.",
    401: "The server does not know the caller: no token, or one that is not valid.",
    403: "The caller's role may not do it.",
    404: "There is no such model.",
    409: "The model id is in use.",
    429: "The queue is full: try again after RetryInfo.retryDelay.",
    501: "This model or this server can't do it.",
    503: "No server answers: it starts, stops or can't be reached. What only reads may be sent again.",
    504: "The deadline (header grpc-timeout) has passed.",
}
ALWAYS = ("UNAUTHENTICATED", "PERMISSION_DENIED", "UNAVAILABLE", "DEADLINE_EXCEEDED")
"""Errors that any call may have, and that comments do not repeat."""

INFO = """BERT-family models behind gRPC, asked by JSON over HTTP.

Names are in lowerCamelCase. 64-bit numbers are strings in replies, infinities and NaN are strings ("NaN"), bytes are base64.
Layers and heads count from 0. A stream is one message in a line after the other, each of the schema that its operation has.
x-bertscope-range and x-bertscope-default say in words what only the model or the server's settings decide.
"""
STATUS: Schema = {
    "type": "object",
    "description": "An error, google.rpc.Status. Branch on the code and on ErrorInfo.reason, never on the message.",
    "required": ["code", "message"],
    "properties": {
        "code": {"type": "integer", "description": "gRPC's status code."},
        "message": {"type": "string", "description": "What is wrong, and what to do, in one line."},
        "details": {"type": "array", "items": {"$ref": "#/components/schemas/ErrorDetail"}},
    },
}
DETAIL: Schema = {
    "type": "object",
    "description": "A detail of an error. Its @type says which: ErrorInfo, BadRequest or RetryInfo of google.rpc.",
    "required": ["@type"],
    "properties": {
        "@type": {"type": "string"},
        "reason": {"type": "string", "description": "ErrorInfo: the cause, in UPPER_SNAKE_CASE."},
        "domain": {"type": "string", "description": 'ErrorInfo: "bertscope".'},
        "metadata": {"type": "object", "additionalProperties": {"type": "string"}, "description": "ErrorInfo: its values."},
        "fieldViolations": {
            "type": "array",
            "description": "BadRequest: the fields that are wrong.",
            "items": {
                "type": "object",
                "properties": {
                    "field": {"type": "string", "description": "The path of the field in the request."},
                    "description": {"type": "string", "description": "The error, and the remedy."},
                },
            },
        },
        "retryDelay": {"type": "string", "description": "RetryInfo: how long to wait before the call is sent again."},
    },
}


def document(files: Any, rpcs: Sequence[Rpc], contract: Contract) -> str:
    """Returns the description as JSON."""
    made = schemas.schemas(files, contract)
    methods = dict(_methods(files))
    services = [
        {"name": service.name, "description": schemas.comments(file).get((schemas.SERVICES, index), "")}
        for file in files.file
        for index, service in enumerate(file.service)
        if any(rpc.http and rpc.service == f"{file.package}.{service.name}" for rpc in rpcs)
    ]
    paths: dict[str, Schema] = {}
    used: list[str] = []
    for rpc in rpcs:
        said, request, reply = methods[rpc.path]
        used += [request, reply] if rpc.http else []
        for index, (verb, path) in enumerate(reversed(rpc.http)):
            operation = _operation(rpc, verb, path, said, request, reply, made, first=index == 0)
            paths.setdefault(VARIABLE.sub(r"models/{\1}", path), {})[verb.lower()] = operation
    found = {
        "openapi": "3.1.1",
        "info": {
            "title": "bertscope",
            "version": "v1",
            "description": INFO,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "http://127.0.0.1:8080", "description": "Envoy, as deploy/envoy configures it"}],
        "security": [{}, {"token": []}, {"certificate": []}],
        "tags": sorted(services, key=lambda tag: tag["name"]),
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": {name: made[name] for name in sorted(schemas.reachable(used, made))}
            | {"Status": STATUS, "ErrorDetail": DETAIL},
            "responses": {f"E{code}": _error(meaning) for code, meaning in MEANINGS.items()},
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "The token of a caller in the server's tokens file.",
                },
                "certificate": {"type": "mutualTLS", "description": "A certificate in the server's tokens file."},
            },
        },
    }
    return json.dumps(found, indent=1, ensure_ascii=False) + "\n"


def _methods(files: Any) -> Iterator[tuple[str, tuple[str, str, str]]]:
    """Yields the path of each rpc with its comment and the short names of its request and its reply."""
    for file in files.file:
        said = schemas.comments(file)
        for index, service in enumerate(file.service):
            for number, method in enumerate(service.method):
                comment = said.get((schemas.SERVICES, index, schemas.PARTS, number), "")
                names = schemas.short(method.input_type), schemas.short(method.output_type)
                yield f"/{file.package}.{service.name}/{method.name}", (comment, *names)


def _operation(
    rpc: Rpc, verb: str, path: str, said: str, request: str, reply: str, made: dict[str, Schema], *, first: bool
) -> Schema:
    variable = VARIABLE.search(path)
    fields = made[request]["properties"]
    parameters = []
    if variable:
        parameters.append(
            {
                "name": variable[1],
                "in": "path",
                "required": True,
                "description": "The id of the model, without models/.",
                "schema": {"type": "string"},
            }
        )
    if verb == "GET":
        parameters += [
            {"name": name, "in": "query", "description": field.get("description", ""), "schema": _undescribed(field)}
            for name, field in fields.items()
            if not (variable and name == variable[1])
        ]
    operation: Schema = {
        "operationId": (rpc.name[0].lower() + rpc.name[1:]) + ("" if first else "OfModel"),
        "tags": [rpc.service.rpartition(".")[2]],
        "summary": said.partition("\n\n")[0],
        "description": said,
        "parameters": parameters,
    }
    if verb != "GET":
        operation["requestBody"] = {"required": True, "content": _json(request)}
    what = "Messages, one a line, while the stream goes on." if rpc.streaming else "The answer."
    operation["responses"] = {"200": {"description": what, "content": _json(reply)}} | _errors(said)
    if rpc.role == "anyone":
        operation["security"] = []
    operation["x-bertscope"] = {
        "rpc": rpc.path,
        "role": rpc.role,
        "work": rpc.work,
        "idempotent": rpc.idempotent,
        "streaming": rpc.streaming,
        "request": request,
    }
    return operation


def _undescribed(field: Schema) -> Schema:
    return {key: value for key, value in field.items() if key != "description"}


def _json(name: str) -> Schema:
    return {"application/json": {"schema": schemas.reference(name)}}


def _errors(said: str) -> Schema:
    """Returns the errors that a comment names, and those that any call may have."""
    codes = {CODES[name] for name in CODES if name in ALWAYS or re.search(rf"\b{name}\b", said)}
    return {str(code): {"$ref": f"#/components/responses/E{code}"} for code in sorted(codes)}


def _error(meaning: str) -> Schema:
    return {"description": meaning, "content": _json("Status")}
