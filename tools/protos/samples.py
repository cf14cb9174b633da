"""One sample of each rpc, read from tests/samples/<rpc>.json: a request that is answered, and changes of it that are refused.

    {"request": {...},                                             in protobuf's JSON
     "refused": [{"reason": "NO_MASK",                             of the error's ErrorInfo
                  "field": "texts[0]",                             of its BadRequest; left out where there is none
                  "change": {"texts": ["no mask"]}}, ...]}         fields of the request that are replaced; null leaves one out

In a sample "$folder" is the folder of a tiny BERT, "$student" a new one beside it, and "$long", also within a text, what no
tiny model reads. A tensor without data is full of zeros.
"""

import json
import math
import secrets
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from bertscope.v1 import common_pb2
from bertscope_service.contract import METHODS, Method
from google.protobuf.json_format import ParseDict
from google.protobuf.message import Message

SAMPLES = Path(__file__).parents[2] / "tests" / "samples"
WORD = "tirilirilirili"
"""A word of every sample's texts, which no other text has."""

SAID = f"The {WORD} sat on the [MASK]."


class Refused(NamedTuple):
    """A request that is refused: its method, the reason, and the field that the error names, "" for none."""

    method: Method
    reason: str
    field: str
    request: Message


def good(folder: Path) -> dict[str, Message]:
    """Returns the request of each rpc by its name, in the contract's order, for a server of the models of the fixture `lab`;
    `folder` is that of models/bert. Some requests leave a model behind."""
    return {method.name: _message(method, _sample(method.name)["request"], folder) for method in METHODS.values()}


def refused_requests() -> list[Refused]:
    """Returns the requests of all samples that are refused."""
    found = []
    for method in METHODS.values():
        sample = _sample(method.name)
        for each in sample.get("refused", ()):
            fields = {name: value for name, value in (sample["request"] | each["change"]).items() if value is not None}
            message = _message(method, fields, Path("/nowhere/bert"))
            found.append(Refused(method, each["reason"], each.get("field", ""), message))
    return found


@cache
def _sample(name: str) -> Mapping[str, Any]:
    return json.loads((SAMPLES / f"{name}.json").read_text(encoding="utf-8"))  # type: ignore[no-any-return]


def _message(method: Method, fields: Mapping[str, Any], folder: Path) -> Message:
    student = folder.with_name(f"student-{secrets.token_hex(4)}")
    named: dict[str, str] = {
        "$folder": str(folder),
        "$student": str(student),
        "$long": f"{WORD} " * 500,
    }
    request = ParseDict(_filled(fields, named), method.request())
    _fill_tensors(request)
    return request


def _filled(value: Any, named: Mapping[str, str]) -> Any:
    """Returns a value of JSON with its placeholders filled in."""
    if isinstance(value, Mapping):
        return {key: _filled(one, named) for key, one in value.items()}
    if isinstance(value, list):
        return [_filled(one, named) for one in value]
    if not isinstance(value, str):
        return value
    return named[value] if value in named else value.replace("$long", str(named["$long"]))


def _fill_tensors(message: Message) -> None:
    """Fills tensors that have a shape and no data with zeros."""
    if isinstance(message, common_pb2.Tensor):
        message.data = message.data or bytes(4 * math.prod(message.shape))
        return
    for field, value in message.ListFields():
        if field.message_type is not None:
            for each in value if field.is_repeated else (value,):
                _fill_tensors(each)


def zeros(*shape: int) -> common_pb2.Tensor:
    """Returns a tensor of zeros."""
    return common_pb2.Tensor(dtype=common_pb2.DATA_TYPE_FLOAT32, shape=shape, data=bytes(4 * math.prod(shape)))
