"""Parses layers, heads, interventions and sizes: "3:1,4", "5", "0:2=0.5", "3:1+5:0", "256MiB"."""

import re
from collections.abc import Iterable

import typer
from bertscope import HeadIntervention
from bertscope.values import interventions

UNITS = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def numbers(option: str, values: Iterable[str] | None) -> list[int] | None:
    """Returns the numbers of a repeated option, each value one number or several with commas; None if there are none."""
    if not values:
        return None
    return [number(option, value, part) for value in values for part in value.split(",")]


def words(option: str, value: str) -> list[str]:
    """Returns words with commas between; `option` is "" for those of a text."""
    found = [word.strip() for word in value.split(",")]
    if not all(found):
        raise typer.BadParameter(f"{option} {value!r}: a word is empty; write A,B".lstrip())
    return found


def head_interventions(
    zero: Iterable[str] | None,
    uniform: Iterable[str] | None,
    scale: Iterable[str] | None,
    mean: Iterable[str] | None = None,
) -> list[HeadIntervention]:
    """Returns the interventions of --zero, --uniform, --mean and --scale."""
    return [
        *(interventions.zero(*_layer_and_heads("--zero", value, value)) for value in zero or ()),
        *(interventions.uniform(*_layer_and_heads("--uniform", value, value)) for value in uniform or ()),
        *(interventions.mean(*_layer_and_heads("--mean", value, value)) for value in mean or ()),
        *(_scale(value) for value in scale or ()),
    ]


def head_set(option: str, value: str) -> dict[int, list[int] | None]:
    """Returns heads of several layers: "3:1,4+5" are two of layer 3 and all of layer 5."""
    places = [_layer_and_heads(option, value, place) for place in value.split("+")]
    if len({layer for layer, _ in places}) != len(places):
        raise typer.BadParameter(f"{option} {value}: a layer is named twice; write LAYER:HEAD,HEAD once for each")
    return dict(places)


def all_heads(option: str, values: Iterable[str]) -> dict[int, Iterable[int] | None]:
    """Returns the heads of a repeated option together; a layer may come more than once."""
    result: dict[int, Iterable[int] | None] = {}
    for value in values:
        for layer, heads in head_set(option, value).items():
            before = result.get(layer, ())
            result[layer] = None if heads is None or before is None else sorted({*before, *heads})
    return result


def columns(option: str, value: str | None) -> dict[str, str]:
    """Returns a file's names of its columns: "text=sentence1,label=gold"."""
    parts = [part.partition("=") for part in value.split(",")] if value else []
    if not all(name.strip() and column.strip() for name, _, column in parts):
        raise typer.BadParameter(f"{option} {value}: write NAME=COLUMN,NAME=COLUMN, for example text=sentence1")
    return {name.strip(): column.strip() for name, _, column in parts}


def byte_count(option: str, value: str) -> int:
    """Returns a number of bytes: "256MiB", "1.5 GB", "4096"."""
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) *([A-Za-z]*)", value.strip())
    if not found or (found[2] or "B") not in UNITS:
        raise typer.BadParameter(f"{option} {value}: write a number and one of {', '.join(UNITS)}, for example 256MiB")
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
        raise typer.BadParameter(f"--scale {value}: write LAYER:HEAD,HEAD=FACTOR, for example 0:2=0.5") from None
    layer, heads = _layer_and_heads("--scale", value, place)
    return interventions.scale(layer, heads, factor=number)


def _layer_and_heads(option: str, value: str, place: str) -> tuple[int, list[int] | None]:
    layer, colon, heads = place.partition(":")
    return (
        number(option, value, layer),
        [number(option, value, head) for head in heads.split(",")] if colon else None,
    )


def number(option: str, value: str, part: str) -> int:
    if not (part.strip().isascii() and part.strip().isdecimal()):
        why = "layers and heads count from 0" if part.strip().startswith("-") else "it is not a number from 0"
        raise typer.BadParameter(f"{option} {value}: {part.strip() or 'nothing'!r} can't be one; {why}")
    return int(part)
