"""Makes empty environments, into which a release is installed as its users install it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from tools.release.commands import ROOT, run, uv
from tools.release.distributions import Distribution

_ORIGIN = """
import sys, bertscope, bertscope_service, bertscope_workbench as workbench
sys.exit(not all(module.__file__.startswith(sys.prefix) for module in (bertscope, bertscope_service, workbench)))
"""


def interpreter(version: str) -> Path | None:
    """Returns an interpreter of a version, as "3.12", on this machine; None if there is none."""
    command = [uv(), "python", "find", "--no-python-downloads", version]
    found = subprocess.run(command, env=_searching(), capture_output=True, text=True, check=False)
    return Path(found.stdout.strip()) if found.returncode == 0 else None


def locked_versions(file: Path) -> Path:
    """Writes the versions of uv.lock as constraints, so that a trial can be reproduced."""
    flags = [
        "--all-packages",
        "--all-extras",
        "--all-groups",
        "--no-emit-workspace",
        "--no-hashes",
        "--no-annotate",
        "--no-header",
    ]
    run([uv(), "export", "--quiet", "--frozen", *flags, "--output-file", str(file)], ROOT)
    return file


class Environment:
    """A folder with an interpreter and its packages; removed at the end."""

    def __init__(self, folder: Path, interpreter: Path, constraints: Path) -> None:
        self.folder = folder
        self.python = folder / "bin" / "python"
        self._interpreter = interpreter
        self._constraints = constraints

    def __enter__(self) -> Self:
        run([uv(), "venv", "--quiet", "--clear", "--python", str(self._interpreter), str(self.folder)], ROOT)
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def install(self, distributions: Sequence[Distribution]) -> None:
        """Installs built distributions, and their requirements."""
        names = [distribution.requirement for distribution in distributions]
        # First ours alone, from their folder: no index is searched for our names, and no path of this machine is recorded.
        # uv's cache would return a wheel of the same name that was built before.
        folder = distributions[0].wheel.parent
        self._install("--no-cache", "--no-deps", "--no-index", "--find-links", str(folder), *names)
        self._install("--constraints", str(self._constraints), *names)

    def install_test_tools(self) -> None:
        """Installs the tests' requirements beside the distributions; some of them install packages themselves, by uv."""
        group = f"{ROOT / 'pyproject.toml'}:dev"
        self._install("--constraints", str(self._constraints), "--no-sources", "--group", group, "uv")

    def run(self, *command: str) -> None:
        """Runs a program of this environment in the repository's root.

        Raises:
            subprocess.CalledProcessError: it failed.
        """
        program, *arguments = command
        run([str(self.folder / "bin" / program), *arguments], ROOT, self._variables())

    def check_origin(self) -> None:
        """Checks that imports here come from the installed distributions, not from the working tree."""
        self.run("python", "-c", _ORIGIN)

    def _install(self, *arguments: str) -> None:
        run([uv(), "pip", "install", "--quiet", "--python", str(self.python), *arguments], ROOT)

    def _variables(self) -> dict[str, str]:
        """Returns this process's variables without those that point to its own packages, or configure a server."""
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("BERTSCOPE_", "PYTHON", "VIRTUAL_ENV"))
        }
        return kept | {"PATH": f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"}


def _searching() -> dict[str, str]:
    """Returns variables with which uv searches pyenv's versions, too.

    pyenv's own programs on PATH fail for every version that is installed but not active.
    """
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    versions = sorted(str(folder) for folder in pyenv.glob("versions/3.1?.*/bin"))
    others = [folder for folder in os.environ["PATH"].split(os.pathsep) if Path(folder) != pyenv / "shims"]
    return os.environ | {"UV_PYTHON_SEARCH_PATH": os.pathsep.join([*versions, *others])}
