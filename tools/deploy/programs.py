"""Runs external programs for releases and checks of deployment files."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sysconfig
from collections.abc import Sequence
from pathlib import Path

TIMEOUT_SECONDS = 120.0


class Broken(Exception):
    """A file is not as it must be; the text says which and why."""


class NotInstalled(Exception):
    """The program that checks a file is not installed, so the file is not checked."""


def program(name: str) -> Path:
    """Returns the path of a program beside this interpreter, else on PATH. Raises NotInstalled."""
    beside = Path(sysconfig.get_path("scripts")) / name
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise NotInstalled(f"{name} is not installed")
    return Path(found)


def run(command: Sequence[str | Path], folder: Path, timeout_seconds: float = TIMEOUT_SECONDS) -> str:
    """Returns a program's output. Raises Broken with its message if it fails or hangs, NotInstalled if it is missing."""
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


def free_port() -> int:
    """Returns a free port of 127.0.0.1, for servers that can't choose one themselves."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])
