"""Parses the units of a search: "head:4:10", "neurons:3", "4:upos.npz=DET", "4:She sat on the *bank* of the river."."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import bertscope
import typer
from bertscope import NearestTo, SiteDirection, SparseCodes

from bertscope_workbench.command.options import sites, specifications
from bertscope_workbench.command.options.sites import FILE
from bertscope_workbench.command.views.files import read_file
from bertscope_workbench.command.views.output import UsageError

UNIT = re.compile(r"(?P<kind>head|neuron|code)s?(?::(?P<layer>\d+)(?::(?P<numbers>[\d,-]+))?)?")
PROBE = re.compile(r"(?P<layer>\d+):(?P<file>.+)=(?P<label>[^=]+)")
NEAR = re.compile(r"(?P<layer>\d+):(?P<before>[^*]*)\*(?P<word>[^*]+)\*(?P<after>[^*]*)", re.DOTALL)


def searched(
    units: Sequence[str] | None,
    directions: Sequence[str] | None,
    probes: Sequence[str] | None,
    codes: Path | None,
    near: Sequence[str] | None,
) -> dict[str, Any]:
    """Returns heads, neurons and directions as arguments of `find_contexts`. Raises BadParameter, and UsageError for none."""
    heads, neurons = dict[int, list[int] | None](), dict[int, list[int] | None]()
    found: list[SiteDirection] = []
    every = {"head": False, "neuron": False}
    for value in units or ():
        matched = UNIT.fullmatch(value.strip())
        if matched is None:
            raise typer.BadParameter(f"--unit {value}: write head:4:10, neuron:3:217, code:3:217, or all: heads, neurons:3")
        kind, layer, numbers = matched["kind"], matched["layer"], sites.units_of("--unit", value, matched["numbers"])
        if kind == "code":
            found += _codes(value, codes, layer, numbers)
        elif layer is None:
            every[kind] = True
        else:
            of = heads if kind == "head" else neurons
            known = of.get(int(layer), [])
            of[int(layer)] = None if numbers is None or known is None else [*dict.fromkeys([*known, *numbers])]
    found += [_direction(value) for value in directions or ()]
    found += [_probe(value) for value in probes or ()]
    asked = {
        "heads": "all" if every["head"] else heads or None,
        "neurons": "all" if every["neuron"] else neurons or None,
        "directions": found,
    }
    if not any(asked.values()) and not near:
        raise UsageError("name at least one unit: --unit head:4:10, --unit neurons:3, --direction, --probe or --nearest")
    return asked


def nearest(option: str, values: Sequence[str] | None) -> list[NearestTo]:
    """Returns the words that L:TEXT names, each between asterisks. Raises BadParameter."""
    found = []
    for value in values or ():
        matched = NEAR.fullmatch(value)
        if matched is None:
            raise typer.BadParameter(
                f'{option} {value}: write a layer, a text, and one word of it between asterisks: "4:the *bank*"'
            )
        before, word = matched["before"], matched["word"]
        span = (len(before), len(before) + len(word))
        found.append(NearestTo(before + word + matched["after"], span, int(matched["layer"])))
    return found


def _codes(value: str, path: Path | None, layer: str | None, numbers: Sequence[int] | None) -> list[SiteDirection]:
    kept: SparseCodes = sites.codes_of("--unit", value, path)
    if layer is not None and int(layer) != kept.layer:
        raise typer.BadParameter(f"--unit {value}: the codes of {path} are of state {kept.layer}; write code:{kept.layer}")
    return [kept.direction(number) for number in (range(len(kept)) if numbers is None else numbers)]


def _direction(value: str) -> SiteDirection:
    matched = FILE.fullmatch(value)
    if matched is None or matched["strength"] is not None or matched["positions"] is not None:
        raise typer.BadParameter(f"--direction {value}: write LAYER:VECTOR.npy")
    path = Path(matched["file"])
    layer = specifications.number("--direction", value, matched["layer"])
    with sites.named("--direction", value):
        return SiteDirection(f"{path.stem}:{layer}", layer, sites.read_arrays("--direction", value, path))


def _probe(value: str) -> SiteDirection:
    matched = PROBE.fullmatch(value)
    if matched is None:
        raise typer.BadParameter(f"--probe {value}: write LAYER:PROBE.npz=CLASS")
    path = Path(matched["file"])
    with sites.named("--probe", value):
        return read_file(path, bertscope.load_probe).direction(int(matched["layer"]), matched["label"])
