"""Programs that a release starts."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from deploy.tools import program

ROOT = Path(__file__).resolve().parents[1]


def uv() -> str:
    """The uv that everything is built and installed with. Raises NotInstalled."""
    return str(program("uv"))


def run(command: Sequence[str], folder: Path, environment: dict[str, str] | None = None) -> None:
    """Run a command and show what it prints.

    Raises:
        subprocess.CalledProcessError: it failed.
    """
    subprocess.run(command, cwd=folder, env=environment, check=True)
