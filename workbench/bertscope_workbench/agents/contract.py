"""Reads the operations that become tools from the contract's OpenAPI description, which `make protos` writes."""

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from importlib import resources
from typing import Any

from bertscope.rpc import contract
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

Schema = dict[str, Any]

TOLD: Schema = tomllib.loads(resources.files("bertscope_workbench.agents").joinpath("told.toml").read_text(encoding="utf-8"))
"""Texts that agents get beside the contract; the file says what its parts are."""

USUAL = tuple(TOLD["usual"])


@dataclass(frozen=True, slots=True)
class Operation:
    """An rpc: its name as a tool, its options, and its messages."""

    name: str
    """The name of the client's method: "fill_mask"."""

    path: str
    """ "/bertscope.v1.ClozeService/FillMask"."""

    description: str
    """The comment of the contract."""

    role: str
    """The role that a caller needs: "anyone", "read" or "admin"."""

    work: str
    """The kind of work: "probe", "interactive", "bulk", "whole_device" or "control"."""

    idempotent: bool
    """True if a failed call may be sent again."""

    streaming: bool
    schema: str
    """The name of the schema of its request."""

    request: type[Message]
    reply: type[Message]

    @property
    def reads(self) -> bool:
        """True if the call changes nothing."""
        return self.role != "admin"

    @property
    def soon(self) -> bool:
        """True if the answer comes within seconds, or not at all."""
        return not self.streaming and (self.work in ("interactive", "probe") or (self.work == "control" and self.idempotent))


@cache
def _document() -> Schema:
    text = resources.files("bertscope_workbench.agents").joinpath("openapi.json").read_text(encoding="utf-8")
    found: Schema = json.loads(text)
    return found


def schemas() -> Mapping[str, Schema]:
    """Returns the schemas of all messages and enums of the contract by their names."""
    found: Mapping[str, Schema] = _document()["components"]["schemas"]
    return found


@cache
def operations() -> Mapping[str, Operation]:
    """Returns the operations by their names, in the order of the contract's services."""
    methods = {f"/{method.containing_service.full_name}/{method.name}": method for method in contract.METHODS}
    described = {
        operation["x-bertscope"]["rpc"]: operation for ways in _document()["paths"].values() for operation in ways.values()
    }
    found = {}
    for path, method in methods.items():
        if path not in described:
            continue
        said = described[path]
        own = said["x-bertscope"]
        name = re.sub("(?<!^)(?=[A-Z])", "_", method.name).lower()
        found[name] = Operation(
            name,
            path,
            said["description"],
            own["role"],
            own["work"],
            own["idempotent"],
            own["streaming"],
            own["request"],
            GetMessageClass(method.input_type),
            GetMessageClass(method.output_type),
        )
    return found


def chosen(names: str) -> Sequence[Operation]:
    """Returns the operations that `names` chooses: "all"; "read", those that change nothing and take no device for themselves;
    "usual", a dozen of them; or names and patterns with commas between ("fill_mask,sweep_*").

    Raises ValueError for a part that chooses none.
    """
    found: dict[str, Operation] = {}
    for part in filter(None, (part.strip() for part in names.split(","))):
        some = [each for each in operations().values() if _is_chosen(each, part)]
        if not some:
            raise ValueError(f"no tool is called {part!r}; use usual, read, all, or names such as fill_mask and sweep_*")
        found |= {each.name: each for each in some}
    if not found:
        raise ValueError("no tool is chosen; use usual, read, all, or names such as fill_mask and sweep_*")
    return [each for each in operations().values() if each.name in found]


def _is_chosen(operation: Operation, part: str) -> bool:
    if part == "read":
        return operation.reads and operation.work != "whole_device"
    if part == "usual":
        return operation.name in USUAL
    return part == "all" or fnmatchcase(operation.name, part)
