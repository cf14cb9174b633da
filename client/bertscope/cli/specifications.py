"""Reads what users write for layers, heads and interventions: "3:1,4", "5", "0:2=0.5"."""

from collections.abc import Iterable

import typer

from bertscope import interventions
from bertscope.interventions import HeadIntervention


def numbers(option: str, values: Iterable[str] | None) -> list[int] | None:
    """Numbers from a repeated option, each value one number or several with commas; None if there are none."""
    if not values:
        return None
    return [_number(option, value, part) for value in values for part in value.split(",")]


def head_interventions(
    zero: Iterable[str] | None, uniform: Iterable[str] | None, scale: Iterable[str] | None
) -> list[HeadIntervention]:
    """The interventions of --zero, --uniform and --scale."""
    return [
        *(interventions.zero(*_layer_and_heads("--zero", value, value)) for value in zero or ()),
        *(interventions.uniform(*_layer_and_heads("--uniform", value, value)) for value in uniform or ()),
        *(_scale(value) for value in scale or ()),
    ]


def describe(intervention: HeadIntervention) -> str:
    """The intervention as one would write it in Python."""
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
        _number(option, value, layer),
        [_number(option, value, head) for head in heads.split(",")] if colon else None,
    )


def _number(option: str, value: str, part: str) -> int:
    if not (part.strip().isascii() and part.strip().isdecimal()):
        raise typer.BadParameter(f"{option} {value}: {part.strip() or 'nothing'!r} is not a number from 0")
    return int(part)
