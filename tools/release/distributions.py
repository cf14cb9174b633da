"""Builds the distributions of a release."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from bertscope import __version__

from tools.release.commands import ROOT, run, uv


@dataclass(frozen=True)
class Distribution:
    """One distribution, built."""

    name: str
    wheel: Path
    sdist: Path

    @property
    def requirement(self) -> str:
        """The requirement for an installer."""
        return f"{self.name}=={__version__}"


@dataclass(frozen=True)
class Distributions:
    """The distributions of one version."""

    client: Distribution
    workbench: Distribution
    service: Distribution


def build(folder: Path, constraints: Path) -> Distributions:
    """Builds client, workbench and service into an empty folder. Wheels come from the sdists: an incomplete sdist fails here.

    The constraints pin the build requirements, so that the same commit gives the same bytes.
    """
    shutil.rmtree(folder, ignore_errors=True)
    flags = ("--all-packages", "--build-constraints", str(constraints), "--out-dir", str(folder))
    run([uv(), "build", "--quiet", *flags], ROOT)
    return Distributions(*(_built(folder, name) for name in ("bertscope", "bertscope-workbench", "bertscope-service")))


def _built(folder: Path, name: str) -> Distribution:
    """Returns the files of a distribution, which have the one version."""
    stem = f"{name.replace('-', '_')}-{__version__}"
    found = Distribution(name, folder / f"{stem}-py3-none-any.whl", folder / f"{stem}.tar.gz")
    for file in (found.wheel, found.sdist):
        if not file.exists():
            raise FileNotFoundError(f"{file.name} was not built: a distribution does not have the version of client/bertscope")
    return found
