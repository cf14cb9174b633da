"""Checks Python values that protobuf would reject without naming the field, or would convert to something else.

Limits of encodable values are left to the server, so that only one place knows them.
"""

import math
import operator
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from os import PathLike
from typing import SupportsIndex, TypeGuard, TypeVar, cast

from bertscope.errors import invalid_argument

T = TypeVar("T")

UINT32_MAX = 2**32 - 1
UINT64_MAX = 2**64 - 1

Heads = SupportsIndex | Iterable[SupportsIndex] | None
"""One head, many, or None for all heads of a layer."""
HeadsByLayer = Mapping[int, Heads]
"""A set of heads: {layer: head, heads or None for all}."""
TextOrPair = str | tuple[str, str]
"""A text, or a pair of texts that the model reads together."""
File = str | PathLike[str]
"""The path of a file."""


def is_flag(value: object) -> bool:
    """Returns whether a value is True or False, also one of numpy, which is not imported for it."""
    numpy = sys.modules.get("numpy")
    return isinstance(value, bool) or (numpy is not None and isinstance(value, numpy.bool_))


def text(field: str, value: object) -> str:
    """Returns a string that UTF-8 can encode."""
    if not isinstance(value, str):
        raise invalid_argument(field, f"must be a string, not {_kind(value)}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise invalid_argument(field, f"cannot be encoded as UTF-8: lone surrogate at character {error.start}") from None
    return value


def texts(field: str, values: str | Iterable[str]) -> list[str]:
    """Returns a list of one string or many."""
    if isinstance(values, str):
        return [text(field, values)]
    found = [*many(field, values, "strings")]
    if ascii_texts(found):
        return found
    return [text(f"{field}[{index}]", value) for index, value in enumerate(found)]


def some_texts(field: str, values: str | Iterable[str] | None) -> list[str]:
    """Returns a list of one string or many, empty for None; an empty list is rejected because it means the same on the wire."""
    return [] if values is None else not_empty(field, texts(field, values))


def ascii_texts(values: list[object]) -> TypeGuard[list[str]]:
    """Checks that values are ASCII strings, as most are, without a loop in Python."""
    try:
        return all(map(cast("Callable[[object], bool]", str.isascii), values))
    except TypeError:
        return False


def text_or_pair(field: str, value: object) -> TextOrPair:
    """Returns a string, or a tuple of two."""
    if not isinstance(value, tuple):
        return text(f"{field}.text", value)
    if len(value) != 2:
        raise invalid_argument(
            field, f"a tuple is one pair (text, text_pair), not {len(value)} texts; give many texts as a list"
        )
    return text(f"{field}.text", value[0]), text(f"{field}.text_pair", value[1])


class Many(tuple[T, ...]):
    """Texts that were read before: two strings in it are two texts, not a pair."""

    __slots__ = ()


def is_pair(value: object) -> TypeGuard[tuple[str, str]]:
    """Returns whether a tuple is one pair: it has a text in it."""
    return isinstance(value, tuple) and not isinstance(value, Many) and any(isinstance(part, str) for part in value)


def several(field: str, values: object, wanted: str, *single: type) -> Iterable[object]:
    """Returns values, or one text, one pair or one object of some classes as a list of it."""
    return [values] if isinstance(values, (str, *single)) or is_pair(values) else many(field, values, wanted)


def texts_or_pairs(field: str, values: TextOrPair | Iterable[TextOrPair]) -> Many[TextOrPair]:
    """Returns one text, one pair, or many of either. A tuple of strings is one pair, a list of strings is many texts."""
    if isinstance(values, str) or is_pair(values):
        return Many([text_or_pair(f"{field}[0]", values)])
    found = [*many(field, values, "texts")]
    if ascii_texts(found):
        return Many(found)
    return Many(text_or_pair(f"{field}[{index}]", value) for index, value in enumerate(found))


def uint32(field: str, value: object) -> int:
    """Returns a whole number from 0 to 2**32 - 1; numpy's integers count, booleans don't."""
    return _unsigned(field, value, UINT32_MAX)


def uint64(field: str, value: object) -> int:
    """Returns a whole number from 0 to 2**64 - 1."""
    return _unsigned(field, value, UINT64_MAX)


def positive(field: str, value: object) -> int:
    """Returns a whole number from 1 to 2**32 - 1: on the wire 0 means the default, here it is an error."""
    number = uint32(field, value)
    if not number:
        raise invalid_argument(field, "must be at least 1")
    return number


def uint32s(field: str, values: SupportsIndex | Iterable[SupportsIndex] | None) -> list[int]:
    """Returns one number, many, or none for all; an empty list is rejected because it means all on the wire."""
    if values is None:
        return []
    with suppress(TypeError):  # of anything but an integer
        operator.index(values)  # type: ignore[arg-type]
        return [uint32(field, values)]
    items = many(field, values, "integers")
    return not_empty(field, [uint32(f"{field}[{index}]", value) for index, value in enumerate(items)])


def heads_or_all(field: str, values: Heads) -> tuple[int, ...] | None:
    """Returns one head, many, or None for all."""
    return None if values is None else tuple(uint32s(field, values))


def heads_by_layer(field: str, values: object) -> dict[int, tuple[int, ...]]:
    """Returns heads of several layers, from a mapping {layer: head, heads or None for all}; "all" is empty, as on the wire."""
    if not isinstance(values, Mapping):
        raise invalid_argument(
            field, f"must be a mapping such as {{3: [1, 4], 5: None}} (None: all heads), not {_kind(values)}"
        )
    return {uint32(f"{field}'s layer", layer): _heads(f"{field}[{layer}]", heads) for layer, heads in values.items()}


def not_empty(field: str, values: list[T]) -> list[T]:
    """Returns the list, unless it is empty: on the wire an empty list equals an absent one."""
    if not values:
        raise invalid_argument(field, "is empty; leave it out to mean no restriction")
    return values


def number(field: str, value: object) -> float:
    """Returns a real number, infinite ones and NaN included; numpy's numbers count, booleans don't."""
    try:
        if isinstance(value, (str, bytes)) or is_flag(value):
            raise TypeError
        return float(value)  # type: ignore[arg-type]  # raises TypeError for anything but a number
    except (TypeError, OverflowError, ValueError):
        raise invalid_argument(field, f"must be a number, not {_kind(value)}") from None


def finite_number(field: str, value: object) -> float:
    """Returns a number that is neither infinite nor NaN."""
    result = number(field, value)
    if not math.isfinite(result):
        raise invalid_argument(field, f"must be finite, not {result}")
    return result


def flag(field: str, value: object) -> bool:
    """Returns True or False, also for numpy's."""
    if not is_flag(value):
        raise invalid_argument(field, f"must be True or False, not {_kind(value)}")
    return bool(value)


def choice(field: str, value: object, choices: Mapping[str, T]) -> T:
    """Returns the value of a name."""
    if isinstance(value, str) and value in choices:
        return choices[value]
    raise invalid_argument(field, f"must be one of {', '.join(choices)}, not {value!r}")


def many(field: str, values: object, wanted: str) -> Iterable[object]:
    """Returns an iterable that is not a string."""
    if isinstance(values, (list, tuple)):
        return values  # at once: Python takes longer to find out that a class is iterable
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise invalid_argument(field, f"must be {wanted}, not {_kind(values)}")
    return values


def each(field: str, values: object, wanted: str, read: Callable[[str, object], T]) -> tuple[T, ...]:
    """Returns what values are read as, each by its field and its index in it."""
    return tuple(read(f"{field}[{index}]", value) for index, value in enumerate(many(field, values, wanted)))


def instances(field: str, values: object, kind: type[T]) -> list[T]:
    """Returns one object of a class, or many."""
    if isinstance(values, kind):
        return [values]
    found = list[T]()
    for index, value in enumerate(many(field, values, f"{kind.__name__}s")):
        if not isinstance(value, kind):
            raise invalid_argument(f"{field}[{index}]", f"must be a {kind.__name__}, not {type(value).__name__}")
        found.append(value)
    return found


def pair(field: str, value: object, wanted: str) -> tuple[object, object]:
    """Returns the two parts of a tuple or list."""
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        found = f"{_kind(value)} of {len(value)}" if isinstance(value, (tuple, list)) else _kind(value)
        raise invalid_argument(field, f"must be a tuple {wanted}, not {found}")
    return value[0], value[1]


def _heads(field: str, values: Heads) -> tuple[int, ...]:
    if isinstance(values, (tuple, list)) and not values:
        raise invalid_argument(field, "is empty; write None to mean all heads, or leave the layer out")
    return heads_or_all(field, values) or ()


def _unsigned(field: str, value: object, maximum: int) -> int:
    try:
        if is_flag(value):
            raise TypeError
        result = operator.index(value)  # type: ignore[arg-type]  # raises TypeError for anything but an integer
    except TypeError:
        raise invalid_argument(field, f"must be an integer, not {_kind(value)}") from None
    if result < 0 and re.search(r"\b(layer|head)s?\b", field):
        raise invalid_argument(field, f"is {result}; layers and heads count from 0")
    if not 0 <= result <= maximum:
        raise invalid_argument(field, f"must be 0 to {maximum}, not {result}")
    return result


def _kind(value: object) -> str:
    return "None" if value is None else type(value).__name__


def keep(instance: object, **values: object) -> None:
    """Replaces fields of a frozen dataclass by the checked values."""
    for name, value in values.items():
        object.__setattr__(instance, name, value)


def residues_of(sequence: str) -> str:
    """Returns a sequence without spaces. Raises InvalidArgument for one that is empty or holds anything but capital letters."""
    letters = "".join(sequence.split())
    if not letters or not (letters.isascii() and letters.isalpha() and letters.isupper()):
        raise invalid_argument("sequence", "must be one-letter codes of residues, as capital letters, with spaces or none")
    return letters
