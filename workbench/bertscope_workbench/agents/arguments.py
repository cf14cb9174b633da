"""Makes requests of the arguments that agents give: JSON of the contract, and the short forms that agents write in its place.

A text stands for a message of one ("inputs": ["a text"]), a list of two texts for a pair, a list of texts for a set of them,
{"3": [1, 4]} for heads by layer (silenced, as interventions), "are,is" for the target "are" over "is" at the mask, one value
for a list of one, "zero" for MODE_ZERO; `texts`, `inputs` and `sets` each mean the one of a request. Knows no rpc by name.
"""

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

from bertscope.errors import InvalidArgument, invalid_argument
from bertscope.values.messages import names_of_values
from google.protobuf.json_format import ParseDict, ParseError
from google.protobuf.message import Message

from bertscope_workbench.agents.contract import Operation

ITEMS = ("texts", "inputs", "sets")
"""Names under which requests have the texts that they ask about."""

HOLDERS = ("text", "input")
"""Fields of a message that a text alone stands for."""


def request(operation: Operation, arguments: Mapping[str, Any]) -> Message:
    """Returns the request. Raises InvalidArgument for arguments that are none of its fields, which names those that are meant,
    and for values of another type."""
    given = dict(arguments)
    descriptor = operation.request.DESCRIPTOR
    own = [name for name in ITEMS if name in descriptor.fields_by_name]
    for name in ITEMS:
        if len(own) == 1 and name in given and name not in own and own[0] not in given:
            given[own[0]] = given.pop(name)
    try:
        return ParseDict(_fields(descriptor, given, ""), operation.request())
    except (ParseError, OverflowError) as error:  # JSON's 1e400 is an infinite number, which no integer can hold
        line = str(error).partition("\n")[0]
        raise InvalidArgument(f"{line}; `describe` tells the fields of {operation.name}", reason="CLIENT_SIDE") from None


def _fields(descriptor: Any, given: Mapping[str, Any], path: str) -> dict[str, Any]:
    """Returns a message in the contract's JSON."""
    known = {name: field for field in descriptor.fields for name in (field.name, field.json_name)}
    found = {}
    for name, value in given.items():
        place = f"{path}.{name}".removeprefix(".")
        if name not in known:
            raise invalid_argument(
                place, f"is no field of {descriptor.name}{_near(name, [each.json_name for each in descriptor.fields])}"
            )
        found[known[name].json_name] = _value(known[name], value, place)
    return found


def _near(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, 3)
    return f"; did you mean {' or '.join(near)}?" if near else f", which has {', '.join(known)}" if known else ""


def _value(field: Any, value: Any, path: str) -> Any:
    if not field.is_repeated or value is None:
        return _single(field, value, path)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        return value
    values = value if isinstance(value, list) else [value]
    if _has_layers(field.message_type):
        values = [one for each in values for one in (_by_layer(field.message_type, each) if _is_by_layer(each) else [each])]
    return [_single(field, each, f"{path}[{index}]") for index, each in enumerate(values)]


def _single(field: Any, value: Any, path: str) -> Any:
    if field.enum_type is not None and isinstance(value, str):
        return names_of_values(field.enum_type).get(value.lower(), value)
    if field.message_type is None:
        only_text = isinstance(value, dict) and value.keys() == {"text"} and isinstance(value["text"], str)
        return value["text"] if only_text else value
    if field.message_type.full_name.startswith("google.protobuf."):
        return value
    held = _held(field.message_type, value)
    return _fields(field.message_type, held, path) if isinstance(held, dict) else held


def _held(message: Any, value: Any) -> Any:
    """Returns what a short form stands for; anything else as it is."""
    fields = message.fields_by_name
    if message.name == "Target":
        return _target(value)
    if isinstance(value, str):
        return next(({name: value} for name in HOLDERS if name in fields), value)
    if isinstance(value, list) and len(value) == 2 and {"text", "text_pair"} <= {*fields}:
        return {"text": value[0], "text_pair": value[1]}
    if isinstance(value, list):
        return next(({name: value} for name in ITEMS if name in fields), value)
    if _is_by_layer(value):
        return next(({one.name: value} for one in message.fields if one.is_repeated and _has_layers(one.message_type)), value)
    return value


def _target(value: Any) -> Any:
    """Returns the target of "A,B" or {"answer": "A", "other": "B"}, a word at the mask over another, or of {"label": "A"}."""
    if isinstance(value, str):
        value = dict(zip(("answer", "other"), map(str.strip, value.split(",", 1)), strict=False))
    for name, kind in (("answer", "mask"), ("label", "label")):
        if isinstance(value, dict) and isinstance(value.get(name), str):
            return {"scale": value.get("scale"), kind: {key: each for key, each in value.items() if key != "scale"}}
    return value


def _is_by_layer(value: Any) -> bool:
    return isinstance(value, dict) and bool(value) and all(str(layer).isdecimal() for layer in value)


def _has_layers(message: Any) -> bool:
    return message is not None and message.name in ("LayerHeads", "HeadIntervention")


def _by_layer(message: Any, value: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for layer, heads in value.items():
        yield {"layer": int(layer), "heads": heads} | ({"mode": "zero"} if message.name == "HeadIntervention" else {})
