"""bertscope.json: what a folder that bertscope wrote holds, and how it was made."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bertscope_service.compression.steps import Applied
from bertscope_service.errors import FailedPrecondition

MANIFEST = "bertscope.json"
EXPORTERS = ("onnx", "onnxscript", "torch", "transformers")
"""Libraries whose versions shape an exported graph."""

FORMAT = 2
"""Raised whenever one server would not read rightly what another writes."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a folder holds.

    runtime: "torch" (safetensors) or "onnx". source_digest: of the weights that it was made from. steps: what was done to them,
    in order. versions: of the libraries that wrote it. details: what the runtime's encoder must know to read it.
    """

    runtime: str
    source_digest: str
    steps: tuple[Applied, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)


def exporter_versions() -> dict[str, str]:
    """Version of each of `EXPORTERS`, without importing any."""
    return {library: version(library) for library in EXPORTERS}


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write it into a folder that is being made."""
    content = {"format": FORMAT, **asdict(manifest)}
    (folder / MANIFEST).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def read_manifest(folder: Path) -> Manifest | None:
    """None for a folder without one. Raises FailedPrecondition for one that can't be read or that a newer server wrote."""
    path = folder / MANIFEST
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise _unreadable(path, f"can't be read: {error}") from error
    try:
        if content["format"] != FORMAT:
            found = f"has format {content['format']!r} and this server reads {FORMAT}"
            raise _unreadable(path, f"{found}; make it again here, or use the bertscope that wrote it")
        steps = tuple(
            Applied(str(step["step"]), str(step["description"]), {k: float(v) for k, v in step["numbers"].items()})
            for step in content["steps"]
        )
        versions = {str(name): str(version) for name, version in content["versions"].items()}
        runtime, digest, details = str(content["runtime"]), str(content["source_digest"]), dict(content["details"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _unreadable(path, f"is not a manifest: {error!r}") from error
    return Manifest(runtime, digest, steps, versions, details)


def _unreadable(path: Path, why: str) -> FailedPrecondition:
    return FailedPrecondition(f"{path} {why}", "SOURCE_UNREADABLE", source=path.parent)
