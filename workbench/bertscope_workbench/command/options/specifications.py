"""Parses layers, heads, interventions and sizes: "3:1,4", "5", "0:2=0.5", "3:1+5:0", "256MiB"."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from bertscope import HeadIntervention
from bertscope.values import interventions

from bertscope_workbench.command.groups import Miswritten, each, option

T = TypeVar("T")

UNITS = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def numbered(written: str, help: str, **more: Any) -> Any:  # noqa: A002  # as typer calls it
    """Declares an option of numbers with commas between, which may be repeated; arguments are those of `option`."""
    return option(written, help, reads=numbers, joins=joined, **more)


def numbers(value: str) -> list[int]:
    """Returns numbers with commas between."""
    return [number(part) for part in value.split(",")]


def joined(values: Iterable[Iterable[T]]) -> list[T]:
    """Returns the parts of all values."""
    return [part for value in values for part in value]


def words(value: str) -> list[str]:
    """Returns words with commas between."""
    found = [word.strip() for word in value.split(",")]
    if not all(found):
        raise Miswritten("a word is empty; write A,B")
    return found


def head_interventions(
    zero: Iterable[str] | None,
    uniform: Iterable[str] | None,
    scale: Iterable[str] | None,
    mean: Iterable[str] | None = None,
) -> list[HeadIntervention]:
    """Returns the interventions of --zero, --uniform, --mean and --scale."""
    return [
        *each("--zero", lambda value: interventions.zero(*_layer_and_heads(value)), zero),
        *each("--uniform", lambda value: interventions.uniform(*_layer_and_heads(value)), uniform),
        *each("--mean", lambda value: interventions.mean(*_layer_and_heads(value)), mean),
        *each("--scale", _scale, scale),
    ]


def head_set(value: str) -> dict[int, list[int] | None]:
    """Returns heads of several layers: "3:1,4+5" are two of layer 3 and all of layer 5."""
    places = [*map(_layer_and_heads, value.split("+"))]
    if len({layer for layer, _ in places}) != len(places):
        raise Miswritten("a layer is named twice; write LAYER:HEAD,HEAD once for each")
    return dict(places)


def all_heads(sets: Iterable[Mapping[int, Iterable[int] | None]]) -> dict[int, Iterable[int] | None]:
    """Returns the heads of several sets together; a layer may come more than once."""
    result: dict[int, Iterable[int] | None] = {}
    for layer, heads in (place for one in sets for place in one.items()):
        before = result.get(layer, ())
        result[layer] = None if heads is None or before is None else sorted({*before, *heads})
    return result


def columns(value: str) -> dict[str, str]:
    """Returns a file's names of its columns: "text=sentence1,label=gold"."""
    parts = [part.partition("=") for part in value.split(",")] if value else []
    if not all(name.strip() and column.strip() for name, _, column in parts):
        raise Miswritten("write NAME=COLUMN,NAME=COLUMN, for example text=sentence1")
    return {name.strip(): column.strip() for name, _, column in parts}


def byte_count(value: str) -> int:
    """Returns a number of bytes: "256MiB", "1.5 GB", "4096"."""
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) *([A-Za-z]*)", value.strip())
    if not found or (found[2] or "B") not in UNITS:
        raise Miswritten(f"write a number and one of {', '.join(UNITS)}, for example 256MiB")
    return int(float(found[1]) * UNITS[found[2] or "B"])


def describe(intervention: HeadIntervention) -> str:
    """Returns the intervention as one would write it in Python."""
    arguments = [f"layer={intervention.layer}"]
    if intervention.heads is not None:
        arguments.append(f"heads={list(intervention.heads)}")
    if intervention.factor is not None:
        arguments.append(f"factor={intervention.factor:g}")
    return f"{intervention.mode}({', '.join(arguments)})"


def _scale(value: str) -> HeadIntervention:
    place, _, factor = value.rpartition("=")
    try:
        number = float(factor)
    except ValueError:
        raise Miswritten("write LAYER:HEAD,HEAD=FACTOR, for example 0:2=0.5") from None
    layer, heads = _layer_and_heads(place)
    return interventions.scale(layer, heads, factor=number)


def _layer_and_heads(place: str) -> tuple[int, list[int] | None]:
    layer, colon, heads = place.partition(":")
    return number(layer), [number(head) for head in heads.split(",")] if colon else None


def number(part: str) -> int:
    """Returns the number that a part of a value is. Raises Miswritten for what is none."""
    if not (part.strip().isascii() and part.strip().isdecimal()):
        why = "layers and heads count from 0" if part.strip().startswith("-") else "it is not a number from 0"
        raise Miswritten(f"{part.strip() or 'nothing'!r} can't be one; {why}")
    return int(part)
