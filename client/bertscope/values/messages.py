"""Builds and reads messages that several services share: enums, provenance, tokens, inputs.

Building raises InvalidArgument, naming the field, for values that can't be encoded.
"""

from __future__ import annotations

import dataclasses
import datetime
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from functools import cache, lru_cache, partial
from operator import attrgetter
from types import NoneType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, SupportsIndex, TypeVar, get_args, get_origin

from google.protobuf.message import Message

from bertscope.errors import InvalidReply
from bertscope.v1 import common_pb2
from bertscope.values import validation
from bertscope.values.documents import types_of
from bertscope.values.results import Provenance, Token
from bertscope.values.validation import TextOrPair

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Item = TypeVar("Item")
Request = TypeVar("Request", bound=Message)
Reply = TypeVar("Reply", bound=Message)
Result = TypeVar("Result", bound="DataclassInstance")

Inputs = TextOrPair | Iterable[TextOrPair]
"""One text, one pair, or many of either. A tuple of strings is one pair, a list of strings is many texts."""
Numbers = SupportsIndex | Iterable[SupportsIndex]
"""One layer or head, or many."""


class Asked(NamedTuple, Generic[Item]):
    """The texts of a method, read as they are needed."""

    items: Iterator[Item]
    total: int | None
    """Their number; None until they are read."""
    numbers: Sequence[int] | None = None
    """The index of each, as it is read, among the caller's texts, of which some are left out; None if all are asked about."""


def prefix_of(enum: Any) -> str:
    """Returns what the names of an enum's values begin with."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", enum.name).upper() + "_"


PRECISIONS = {
    "fp32": common_pb2.PRECISION_FLOAT32,
    "tf32": common_pb2.PRECISION_TENSORFLOAT32,
    "bf16": common_pb2.PRECISION_BFLOAT16,
    "fp16": common_pb2.PRECISION_FLOAT16,
}
PRECISION_NAMES = {message: name for name, message in PRECISIONS.items()}
"""Names of precisions, which are shorter than in the contract."""


def names_of_values(enum: Any) -> dict[str, Any]:
    """Returns the values of an enum by their names in Python: {"within_word": 1}, without the one that is unspecified."""
    if enum.name == "Precision":
        return dict(PRECISIONS)
    return {_name(enum, value.number): value.number for value in enum.values if value.number}


def with_items(request: Request, field: str, items: Iterable[Any]) -> Request:
    """Returns the request with some items in one of its fields."""
    result = type(request)()
    result.CopyFrom(request)
    getattr(result, field).extend(items)
    return result


def read(kind: type[Result], message: Message, **converted: Any) -> Result:
    """Returns a result whose fields have the values of the message's fields of the same names, except for `converted` ones.

    The types of the result's fields say what becomes of messages in the message: results, tokens, times. A repeated field
    becomes a tuple, a map a dict, a value of an enum its name; a field that is not set becomes None where it may be None.
    """
    readers = _readers(kind, type(message)).items()  # type: ignore[arg-type]  # a class is hashable, though its messages are not
    return kind(**{name: value(message) for name, value in readers if name not in converted}, **converted)


@cache  # Large replies have many messages of a kind.
def _readers(kind: Any, message: Any) -> Mapping[str, Callable[[Any], Any]]:
    """Returns what reads each field of a result from a message."""
    fields = message.DESCRIPTOR.fields_by_name
    return {name: _reader(fields[name], wanted) for name, wanted in types_of(kind).items() if name in fields}


def _reader(field: Any, wanted: Any) -> Callable[[Any], Any]:
    value, inside = attrgetter(field.name), get_args(wanted)
    if get_origin(wanted) is Mapping:
        return lambda message: dict(value(message))
    may_lack = NoneType in inside
    single = _single(field, inside[0] if inside and (may_lack or field.is_repeated) else wanted)
    if field.is_repeated:
        return lambda message: tuple(value(message)) if single is None else tuple(map(single, value(message)))
    one = single or (lambda found: found)
    if field.has_presence and (may_lack or field.message_type is None):
        return lambda message: one(value(message)) if message.HasField(field.name) else None
    if field.enum_type is not None and may_lack:
        return lambda message: one(number) if (number := value(message)) else None
    return value if single is None else lambda message: one(value(message))


def _single(field: Any, kind: Any) -> Callable[[Any], Any] | None:
    """Returns what reads one value of a field; None for a text or a number, which stays as it is."""
    if field.enum_type is not None:
        return READ_ENUMS.get(field.enum_type.name, partial(_name, field.enum_type))
    return None if field.message_type is None else READ_MESSAGES.get(kind, partial(read, kind))


def enum_value(field: str, name: str | None, enum: Any) -> Any:
    """Returns the contract's value of a name that an argument chooses; 0, which is no name's, for None."""
    return 0 if name is None else validation.choice(field, name, names_of_values(enum.DESCRIPTOR))


def asked(
    given: object, items: Iterator[Item], numbers: Sequence[int] | None = None, *, most: int = sys.maxsize
) -> Asked[Item]:
    """Returns the items that are made of what was given: of a list, up to `most`, at once, of all else as they are read."""
    if not isinstance(given, Sized) or len(given) > most:
        return Asked(items, None, numbers)
    found = list(items)
    return Asked(iter(found), len(found), numbers)


def answered(asked: Sequence[Item], results: Sequence[Reply], what: str = "texts") -> Iterator[tuple[Item, Reply]]:
    """Returns what was asked about, each with its answer. Raises InvalidReply unless there is one for each."""
    if len(results) != len(asked):
        raise InvalidReply(f"the server answered {len(results)} of {len(asked)} {what}")
    return zip(asked, results, strict=True)


def asked_texts(texts: str | Iterable[str]) -> Asked[str]:
    """Returns any number of texts. A sequence is checked at once, an iterator as it is read."""
    if isinstance(texts, Sized):
        checked = validation.texts("texts", texts)
        return Asked(iter(checked), len(checked))
    values = enumerate(validation.many("texts", texts, "strings"))
    return Asked((validation.text(f"texts[{index}]", value) for index, value in values), None)


def asked_inputs(inputs: Inputs) -> Asked[common_pb2.TextInput]:
    """Returns any number of texts or pairs; as `asked_texts`."""
    if isinstance(inputs, Sized):
        checked = validation.texts_or_pairs("inputs", inputs)
        return Asked(map(text_input, checked), len(checked))
    values = enumerate(validation.many("inputs", inputs, "texts"))
    return Asked((text_input(validation.text_or_pair(f"inputs[{index}]", value)) for index, value in values), None)


def text_input(value: TextOrPair) -> common_pb2.TextInput:
    """Returns the message of a text or pair that was checked before."""
    text, text_pair = (value, None) if isinstance(value, str) else value
    return common_pb2.TextInput(text=text, text_pair=text_pair)


def text_of(message: common_pb2.TextInput) -> TextOrPair:
    """Returns the text or pair of a message."""
    return (message.text, message.text_pair) if message.HasField("text_pair") else message.text


def texts_of(message: common_pb2.TextInput) -> dict[str, Any]:
    """Returns the fields `text` and `text_pair` of a result about a message's text or pair."""
    return {"text": message.text, "text_pair": message.text_pair if message.HasField("text_pair") else None}


def provenance(message: common_pb2.Provenance) -> Provenance:
    """Returns the provenance of an answer."""
    known = _provenance(message.SerializeToString(deterministic=True))
    # A dict of its own: a caller that changes one must not change other answers.
    return dataclasses.replace(known, library_versions=dict(known.library_versions))


@lru_cache(maxsize=64)  # Reading it takes longer than reading the answers of a text.
def _provenance(serialized: bytes) -> Provenance:
    message = common_pb2.Provenance.FromString(serialized)
    return Provenance(
        model=message.model,
        weights_digest=message.weights_digest,
        runtime=runtime(message.runtime),
        device=message.device,
        precision=precision(message.precision),
        library_versions=dict(message.library_versions),
        numbering=enum_name(common_pb2.Numbering, message.numbering),
        site_norms=tuple(message.site_norms),
    )


def token(message: common_pb2.Token) -> Token:
    """Returns one position of a sequence."""
    return Token(
        text=message.text,
        id=message.id if message.HasField("id") else None,
        start=message.start,
        end=message.end,
        special=message.special,
        word=message.word if message.HasField("word") else None,
        segment=message.segment,
        pieces=tuple(message.pieces),
    )


def precision(number: common_pb2.Precision.ValueType) -> str:
    """Returns "fp32" or the like; empty if the server does not say, as for a model that still loads."""
    return PRECISION_NAMES.get(number) or enum_name(common_pb2.Precision, number) if number else ""


def runtime(number: int) -> str:
    """Returns "torch" or "onnx"; empty if the server does not say, as for a model that still loads."""
    return enum_name(common_pb2.Runtime, number) if number else ""


def heads_by_layer(messages: Iterable[common_pb2.LayerHeads]) -> dict[int, tuple[int, ...]]:
    """Returns the heads of several layers."""
    return {message.layer: tuple(message.heads) for message in messages}


def enum_name(enum: Any, number: int) -> str:
    """Returns "torch" for RUNTIME_TORCH; the bare number for a value that a newer server knows and this version does not."""
    return _name(enum.DESCRIPTOR, number)


def _name(enum: Any, number: int) -> str:
    found = enum.values_by_number.get(number)
    return found.name.removeprefix(prefix_of(enum)).lower() if found else str(number)


READ_ENUMS: Mapping[str, Callable[[Any], str]] = {"Precision": precision, "Runtime": runtime}
"""Readers of values of enums whose names are others than in the contract, or empty where there is none."""
READ_MESSAGES: Mapping[Any, Callable[[Any], Any]] = {
    Provenance: provenance,
    Token: token,
    datetime.datetime: lambda message: message.ToDatetime(datetime.UTC),
}
"""Readers of messages for which a result has one of these types; `read` reads all others."""
