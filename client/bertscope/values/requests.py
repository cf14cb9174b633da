"""Makes requests from arguments: a field's kind in the contract, and of a model its name, says how its argument is checked.

An argument has the name of its field. None leaves the field unset, which means the server's default. Raises InvalidArgument,
naming the argument, for a value that can't be encoded; limits are left to the server, so that only one place knows them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, TypeVar

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from bertscope.values import validation
from bertscope.values.interventions import intervention_fields
from bertscope.values.messages import names_of_values
from bertscope.values.models import model_name

Request = TypeVar("Request", bound=Message)

MAY_BE_EMPTY = frozenset({"reference_texts", "vocabulary", "words"})
"""Lists of texts that may have none. Another list without texts would mean no restriction on the wire: it is an error here."""

FROM_ZERO = frozenset({"first_pair", "hidden_units"})
"""Fields of which 0 is a value. A field of another whole number is unset by 0, so an argument of 0 is an error here."""

CHECKS: Mapping[int, Callable[[str, Any], Any]] = {
    FieldDescriptor.TYPE_BOOL: validation.flag,
    FieldDescriptor.TYPE_DOUBLE: validation.finite_number,
    FieldDescriptor.TYPE_FLOAT: validation.finite_number,
    FieldDescriptor.TYPE_STRING: validation.text,
    FieldDescriptor.TYPE_UINT64: validation.uint64,
}
"""Checks of single values, by types of fields."""


def request_of(kind: type[Request], /, **arguments: Any) -> Request:
    """Returns a request, or a message of one, whose fields have the values of the arguments of their names.

    A field takes what its kind says: True or False, a number, a text, a name of an enum ("within_word"), one or many of a list.
    Messages are taken as they are. `interventions` has those on heads and those at sites; a model is a name or a `Model`.
    """
    checks = _checks(kind)  # type: ignore[arg-type]  # a class is hashable, though its messages are not
    fields = dict[str, Any]()
    for name, value in arguments.items():
        if name == "interventions":
            fields.update(intervention_fields(value))
        elif value is not None:
            fields[name] = checks[name](name, value)
    return kind(**fields)


@cache
def _checks(kind: Any) -> dict[str, Callable[[str, Any], Any]]:
    return {field.name: _check(field) for field in kind.DESCRIPTOR.fields}


def _check(field: Any) -> Callable[[str, Any], Any]:
    if field.name == "model" or field.name.endswith("_model"):
        return model_name
    if field.name == "model_id":
        return lambda name, value: validation.text(name, value).removeprefix("models/")
    if field.type == FieldDescriptor.TYPE_MESSAGE:
        return lambda _, value: value
    if field.is_repeated and field.type != FieldDescriptor.TYPE_STRING:
        return validation.uint32s
    if field.is_repeated:
        return validation.texts if field.name in MAY_BE_EMPTY else validation.some_texts
    if field.enum_type is not None:
        return partial(_choice, choices=names_of_values(field.enum_type))
    if field.type == FieldDescriptor.TYPE_UINT32:
        return validation.uint32 if field.has_presence or field.name in FROM_ZERO else validation.positive
    return CHECKS[field.type]


def _choice(field: str, value: object, *, choices: Mapping[str, int]) -> int:
    return validation.choice(field, value, choices)
