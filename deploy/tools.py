"""Programs of others that a release or a check of deployment files starts."""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
from collections.abc import Sequence
from pathlib import Path

TIMEOUT_SECONDS = 120.0


class Broken(Exception):
    """A file is not as it must be; the text says which and why."""


class NotInstalled(Exception):
    """What could look at a file is not here, so nobody has looked."""


def program(name: str) -> Path:
    """A program beside this interpreter, else on PATH. Raises NotInstalled."""
    beside = Path(sysconfig.get_path("scripts")) / name
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise NotInstalled(f"{name} is not installed")
    return Path(found)


def run(command: Sequence[str | Path], folder: Path, timeout_seconds: float = TIMEOUT_SECONDS) -> str:
    """What a program prints. Raises Broken with its complaint if it fails or hangs, NotInstalled if it is not here."""
    name, *arguments = command
    try:
        done = subprocess.run(
            [program(str(name)), *arguments], cwd=folder, capture_output=True, text=True, timeout=timeout_seconds, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise Broken(f"{name} in {folder} did not end within {timeout_seconds:g} s") from error
    if done.returncode:
        raise Broken(f"{name} in {folder}:\n{(done.stderr + done.stdout).strip()}")
    return done.stdout
