"""Runs the programs of a release."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from tools.deploy.programs import program

ROOT = Path(__file__).resolve().parents[2]


def uv() -> str:
    """Returns the uv that builds and installs everything. Raises NotInstalled."""
    return str(program("uv"))


def run(command: Sequence[str], folder: Path, environment: dict[str, str] | None = None) -> None:
    """Runs a command and shows its output.

    Raises:
        subprocess.CalledProcessError: it failed.
    """
    subprocess.run(command, cwd=folder, env=environment, check=True)
