"""Writes the bill of materials (SBOM): all packages and models of an installation."""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
import zipfile
from importlib.metadata import PathDistribution
from pathlib import Path, PurePosixPath
from typing import Any

from tools.release.commands import run
from tools.release.distributions import Distribution


def write_sbom(distribution: Distribution, python: Path) -> Path:
    """Writes NAME-VERSION.cdx.json in CycloneDX's form, from an environment with only that distribution.

    It lists the models in the distribution, and the packages of this platform: a wheel of PyTorch for Linux brings CUDA's
    libraries, others do not. An existing list stays: it is of an older Python, which may need packages that newer ones have
    built in.
    """
    folder, metadata = distribution.wheel.parent, _metadata(distribution.wheel)
    file = folder / f"{distribution.name}-{metadata.version}.cdx.json"
    if file.exists():
        return file
    with tempfile.TemporaryDirectory() as scratch:
        subject = Path(scratch) / "pyproject.toml"
        subject.write_text(_project(distribution.name, metadata), encoding="utf-8")
        flags = ["--pyproject", str(subject), "--output-reproducible", "--output-file", str(file)]
        run([sys.executable, "-m", "cyclonedx_py", "environment", *flags, str(python)], folder)
    _add(file, _models(distribution.wheel, metadata.metadata["License-Expression"]))
    return file


def _models(wheel: Path, licence: str) -> list[dict[str, Any]]:
    """Returns the models in a wheel, as components: their weights are not packages that an environment could list."""
    with zipfile.ZipFile(wheel) as archive:
        return [
            {
                "type": "machine-learning-model",
                "bom-ref": name,
                "name": PurePosixPath(name).parent.name,
                "licenses": [{"license": {"id": licence}}],
                "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(archive.read(name)).hexdigest()}],
            }
            for name in sorted(archive.namelist())
            if name.endswith(".safetensors")
        ]


def _add(file: Path, components: list[dict[str, Any]]) -> None:
    """Adds components to a list, as parts of its subject."""
    listed = json.loads(file.read_text(encoding="utf-8"))
    listed["components"] += components
    subject = listed["metadata"]["component"]["bom-ref"]
    (needs,) = (entry for entry in listed["dependencies"] if entry["ref"] == subject)
    needs["dependsOn"] += [component["bom-ref"] for component in components]
    listed["dependencies"] += [{"ref": component["bom-ref"]} for component in components]
    file.write_text(json.dumps(listed, indent=2) + "\n", encoding="utf-8")


def _metadata(wheel: Path) -> PathDistribution:
    """Reads a wheel's metadata."""
    stem = "-".join(wheel.name.split("-")[:2])
    return PathDistribution(zipfile.Path(wheel, f"{stem}.dist-info/"))


def _project(name: str, metadata: PathDistribution) -> str:
    """Returns a pyproject.toml with the fields that ours leave to the build: cyclonedx-py reads no dynamic fields."""
    needs = [need for need in metadata.requires or () if "extra ==" not in need]
    return "\n".join(
        [
            "[project]",
            f'name = "{name}"',
            f'version = "{metadata.version}"',
            f'license = "{metadata.metadata["License-Expression"]}"',
            f"dependencies = {json.dumps(needs)}",
        ]
    )
