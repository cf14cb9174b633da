"""The manifest bertscope.json of a folder that bertscope wrote: its content and its origin."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bertscope_service.checkpoints.steps import Applied
from bertscope_service.errors import FailedPrecondition

MANIFEST = "bertscope.json"
EXPORTERS = ("onnx", "onnxscript", "torch", "transformers")
"""Libraries whose versions shape an exported graph."""

FORMAT = 4
"""Version of the format; raised whenever an older server would misread a newer manifest."""

READABLE = (2, 3, FORMAT)
"""Formats that this server reads; all of 2 except 8-bit integers in ONNX graphs, whose answers depended on their batch."""

TOKENWISE_INT8 = 3
"""The first format whose 8-bit integers in ONNX graphs have a scale for each token."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """The content of a folder.

    runtime: "torch" (safetensors) or "onnx". source_digest: that of the original weights. steps: the applied steps, in order.
    versions: of the libraries that wrote it. details: the settings that the runtime's encoder needs to read it.
    """

    runtime: str
    source_digest: str
    steps: tuple[Applied, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)


@cache
def exporter_versions() -> Mapping[str, str]:
    """Returns the version of each of `EXPORTERS`, without importing any."""
    return {library: version(library) for library in EXPORTERS}


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Writes the manifest into a folder that is being made."""
    content = {"format": FORMAT, **asdict(manifest)}
    (folder / MANIFEST).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def read_manifest(folder: Path) -> Manifest | None:
    """Reads a manifest; None for a folder without one.

    Raises FailedPrecondition for one that can't be read or that a newer server wrote.
    """
    path = folder / MANIFEST
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise _unreadable(path, f"can't be read: {error}") from error
    try:
        written = content["format"]
        if written not in READABLE:
            found = f"has format {written!r} and this server reads {FORMAT}"
            raise _unreadable(path, f"{found}; make it again here, or use the bertscope that wrote it")
        steps = tuple(
            Applied(str(step["step"]), str(step["description"]), {k: float(v) for k, v in step["numbers"].items()})
            for step in content["steps"]
        )
        versions = {str(name): str(version) for name, version in content["versions"].items()}
        runtime, digest, details = str(content["runtime"]), str(content["source_digest"]), dict(content["details"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _unreadable(path, f"is not a manifest: {error!r}") from error
    if written < TOKENWISE_INT8 and runtime == "onnx" and any(step.step == "int8" for step in steps):
        why = "describes int8 graphs that scale all texts of a batch alike, so that answers depend on the neighbours"
        raise _unreadable(path, f"{why}; compress the model again (steps onnx, int8)")
    return Manifest(runtime, digest, steps, versions, details)


def _unreadable(path: Path, why: str) -> FailedPrecondition:
    return FailedPrecondition(f"{path} {why}", "SOURCE_UNREADABLE", source=path.parent)
