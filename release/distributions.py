"""The two distributions that a release is made of."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from bertscope import __version__

from release.commands import ROOT, run, uv


@dataclass(frozen=True)
class Distribution:
    """One distribution, built."""

    name: str
    wheel: Path
    sdist: Path

    @property
    def requirement(self) -> str:
        """What to ask an installer for."""
        return f"{self.name}=={__version__}"


def build(folder: Path, constraints: Path) -> tuple[Distribution, Distribution]:
    """Build client and service into an empty folder. Wheels come from the sdists: one that lacks something fails here.

    The constraints pin what builds, so that the same commit gives the same bytes.
    """
    shutil.rmtree(folder, ignore_errors=True)
    flags = ("--all-packages", "--build-constraints", str(constraints), "--out-dir", str(folder))
    run([uv(), "build", "--quiet", *flags], ROOT)
    return _built(folder, "bertscope"), _built(folder, "bertscope-service")


def _built(folder: Path, name: str) -> Distribution:
    """The files of a distribution, which carry the one version."""
    stem = f"{name.replace('-', '_')}-{__version__}"
    found = Distribution(name, folder / f"{stem}-py3-none-any.whl", folder / f"{stem}.tar.gz")
    for file in (found.wheel, found.sdist):
        if not file.exists():
            raise FileNotFoundError(f"{file.name} was not built: a distribution does not have the version of client/bertscope")
    return found
