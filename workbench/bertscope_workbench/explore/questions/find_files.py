"""Files of directions for the Find view: probes of `bertscope probe --keep`, and sparse codes of `bertscope codes --save`."""

import asyncio
import base64
import tempfile
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

from bertscope import AsyncClient, KeptProbe, SparseCodes, load_probe
from bertscope.errors import InvalidArgument, invalid_argument

from bertscope_workbench.explore.body import Body
from bertscope_workbench.explore.streams import Event
from bertscope_workbench.readers.embedded_codes import embedded_codes

NUMBER = "number"
"""The name of the one score of a probe of numbers."""
NPZ = b"PK"
"""Begins a file of probes, .npz; codes are in the format of safetensors."""


async def directions(_: AsyncClient, body: Body) -> AsyncGenerator[Event, None]:
    """Reads a file of probes or codes: yields `{"kind": "probe" | "code", "layers": [...], "names": [...], "count": n}`: the
    names of classes, [] of codes, and how many there are.

    Fields: data (the file in base64; empty: the codes of the embedded model that ship).
    """
    data = body.text("data", "")
    body.done()
    found = await asyncio.to_thread(_read, data)
    if isinstance(found, SparseCodes):
        yield {"kind": "code", "layers": [found.layer], "names": [], "count": len(found)}
    else:
        yield {"kind": "probe", "layers": list(found.layers), "names": _names(found), "count": len(_names(found))}


def direction(kind: str, data: str, layer: int, number: int) -> dict[str, Any]:
    """Returns what `find_contexts` takes for a class of a probe, the direction whose product with a state, and bias, is the
    score of the class, or for a code. Raises InvalidArgument for a file of anything else, and for a layer or number that it
    does not have."""
    found = _read(data)
    if isinstance(found, SparseCodes) != (kind == "code"):
        raise invalid_argument("unit", f"is a {kind}, and the file is of another kind")
    layers, count = ([found.layer], len(found)) if isinstance(found, SparseCodes) else (found.layers, len(_names(found)))
    if layer not in layers or number >= count:
        raise invalid_argument(
            "unit", f"is {kind}:{layer}:{number}, and the file has 0 to {count - 1} of layers {', '.join(map(str, layers))}"
        )
    if isinstance(found, SparseCodes):
        return {"directions": found.direction(number)}
    return {"directions": found.direction(layer, found.labels[number] if found.labels else None)}


def every_code(data: str, layer: int) -> dict[str, Any]:
    """Returns what `find_contexts` takes for all codes of a file. Raises InvalidArgument for a file of anything else."""
    found = _read(data)
    if not isinstance(found, SparseCodes) or found.layer != layer:
        raise invalid_argument("data", f"holds no sparse codes of layer {layer}")
    return {"directions": [found.direction(number) for number in range(len(found))]}


def _names(probe: KeptProbe) -> list[str]:
    return [*probe.labels] or [NUMBER]


def _read(data: str) -> KeptProbe | SparseCodes:
    if not data:
        return embedded_codes()
    try:
        raw = base64.b64decode(data, validate=True)
    except ValueError as error:
        raise invalid_argument("data", "must be the file's bytes in base64") from error
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "directions")
        path.write_bytes(raw)
        try:
            found = load_probe(path) if raw.startswith(NPZ) else SparseCodes.load(path)
        except InvalidArgument as error:
            raise invalid_argument("data", str(error).removeprefix(str(path)).lstrip(",: ")) from error
    if isinstance(found, KeptProbe) and found.hidden_units:
        raise invalid_argument("data", "holds probes with hidden units, which have no direction; train linear ones")
    if isinstance(found, KeptProbe) and found.pairs:
        raise invalid_argument("data", "holds probes of pairs of words, which have no direction for one word")
    return found
