"""Makes separate environments for the peers: their packages conflict with ours."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

PYTHON = "3.11"
INSTALL_SECONDS = 900


class UnavailableError(Exception):
    """A peer can't be installed or started here; the message says why."""


def interpreter(folder: Path, packages: Sequence[str]) -> Path:
    """Returns the Python of an environment with some packages, made with uv on first use. Raises UnavailableError."""
    python, installed = folder / "bin" / "python", folder / "installed.txt"
    wanted = "\n".join(packages)
    if not installed.exists() or installed.read_text() != wanted:
        _uv("venv", "--quiet", "--clear", "--python", PYTHON, str(folder))
        _uv("pip", "install", "--quiet", "--python", str(python), *packages)
        installed.write_text(wanted)
    return python


def packages_folder(name: str, packages: Sequence[str]) -> Path:
    """Returns a folder with some packages, without their dependencies, which an interpreter of ours may import; made with uv on
    first use. Raises UnavailableError."""
    folder = Path(tempfile.gettempdir()) / f"bertscope-{name}"
    installed, wanted = folder / "installed.txt", "\n".join(packages)
    if not installed.exists() or installed.read_text() != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        _uv("pip", "install", "--quiet", "--no-deps", "--python", sys.executable, "--target", str(folder), *packages)
        installed.write_text(wanted)
    return folder


def importable(name: str, packages: Sequence[str]) -> None:
    """Makes such packages importable in this process, behind our own. Raises UnavailableError."""
    folder = str(packages_folder(name, packages))
    if folder not in sys.path:
        sys.path.append(folder)


def library_folder(python: Path) -> str:
    """Returns the folder of an interpreter's shared library."""
    command = [str(python), "-c", "import sysconfig; print(sysconfig.get_config_var('LIBDIR'))"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def _uv(*arguments: str) -> None:
    # The Makefile puts uv beside Python only if there is none on PATH.
    program = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if program is None:
        raise UnavailableError("uv, which installs it, is neither beside Python nor on PATH; pip install uv")
    command = [program, *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise UnavailableError(f"uv {arguments[0]} took more than {INSTALL_SECONDS} s") from error
    if done.returncode:
        raise UnavailableError(f"uv {arguments[0]} failed: {done.stderr.strip() or done.stdout.strip()}")
