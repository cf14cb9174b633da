"""Parses the units of a search: "head:4:10", "neurons:3", "4:upos.npz=DET", "4:She sat on the *bank* of the river."."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import bertscope
from bertscope import NearestTo, SiteDirection, SparseCodes

from bertscope_workbench.command.groups import Miswritten, each
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
    near: Sequence[NearestTo] | None,
) -> dict[str, Any]:
    """Returns heads, neurons and directions as arguments of `find_contexts`. Raises BadParameter, and UsageError for none."""
    heads, neurons = dict[int, list[int] | None](), dict[int, list[int] | None]()
    found: list[SiteDirection] = []
    every = {"head": False, "neuron": False}

    def add(value: str) -> None:
        matched = UNIT.fullmatch(value.strip())
        if matched is None:
            raise Miswritten("write head:4:10, neuron:3:217, code:3:217, or all: heads, neurons:3")
        kind, layer, numbers = matched["kind"], matched["layer"], sites.units_of(matched["numbers"])
        if kind == "code":
            found.extend(_codes(codes, layer, numbers))
        elif layer is None:
            every[kind] = True
        else:
            of = heads if kind == "head" else neurons
            known = of.get(int(layer), [])
            of[int(layer)] = None if numbers is None or known is None else [*dict.fromkeys([*known, *numbers])]

    for _ in each("--unit", add, units):
        pass
    found += [*each("--direction", _direction, directions), *each("--probe", _probe, probes)]
    asked = {
        "heads": "all" if every["head"] else heads or None,
        "neurons": "all" if every["neuron"] else neurons or None,
        "directions": found,
    }
    if not any(asked.values()) and not near:
        raise UsageError("name at least one unit: --unit head:4:10, --unit neurons:3, --direction, --probe or --nearest")
    return asked


def nearest(value: str) -> NearestTo:
    """Returns the word that L:TEXT names, between asterisks."""
    matched = NEAR.fullmatch(value)
    if matched is None:
        raise Miswritten('write a layer, a text, and one word of it between asterisks: "4:the *bank*"')
    before, word = matched["before"], matched["word"]
    return NearestTo(before + word + matched["after"], (len(before), len(before) + len(word)), int(matched["layer"]))


def _codes(path: Path | None, layer: str | None, numbers: Sequence[int] | None) -> list[SiteDirection]:
    kept: SparseCodes = sites.codes_of(path)
    if layer is not None and int(layer) != kept.layer:
        raise Miswritten(f"the codes of {path} are of state {kept.layer}; write code:{kept.layer}")
    return [kept.direction(number) for number in (range(len(kept)) if numbers is None else numbers)]


def _direction(value: str) -> SiteDirection:
    matched = FILE.fullmatch(value)
    if matched is None or matched["strength"] is not None or matched["positions"] is not None:
        raise Miswritten("write LAYER:VECTOR.npy")
    path, layer = Path(matched["file"]), specifications.number(matched["layer"])
    with sites.checked():
        return SiteDirection(f"{path.stem}:{layer}", layer, sites.read_arrays(path))


def _probe(value: str) -> SiteDirection:
    matched = PROBE.fullmatch(value)
    if matched is None:
        raise Miswritten("write LAYER:PROBE.npz=CLASS")
    with sites.checked():
        return read_file(Path(matched["file"]), bertscope.load_probe).direction(int(matched["layer"]), matched["label"])
