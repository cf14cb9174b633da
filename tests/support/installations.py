"""What clients that nobody here wrote need, installed apart from ours and kept between test runs beside pytest's own cache.

What can't be installed here (no network, no such package for this machine) skips the test that asks for it.
"""

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from filelock import FileLock

from tests.support.patience import granted

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".pytest_cache" / "strangers"
INSTALL_SECONDS = granted(90)


def python_with(name: str, packages: Sequence[str]) -> Path:
    """An interpreter with some packages."""
    folder, stamp, key = CACHE / name, CACHE / f"{name}.key", "\n".join(packages)
    python = folder / "bin" / "python"
    CACHE.mkdir(parents=True, exist_ok=True)
    with FileLock(CACHE / f"{name}.lock"):
        if not (python.exists() and stamp.exists() and stamp.read_text(encoding="utf-8") == key):
            beside = Path(sys.executable).with_name("uv")
            uv = str(beside) if beside.exists() else "uv"
            shutil.rmtree(folder, ignore_errors=True)
            _run([uv, "venv", "--quiet", "--python", sys.executable, str(folder)], CACHE)
            _run([uv, "pip", "install", "--quiet", "--python", str(python), *packages], CACHE)
            stamp.write_text(key, encoding="utf-8")
    return python


def node_project(project: Path, into: Path) -> Path:
    """A copy of a project for Node, with the packages that it locks."""
    locked = [project / "package.json", project / "package-lock.json"]
    key = hashlib.sha256(b"".join(file.read_bytes() for file in locked)).hexdigest()[:16]
    packages, draft = CACHE / f"node-{key}", CACHE / "node.draft"
    CACHE.mkdir(parents=True, exist_ok=True)
    with FileLock(CACHE / "node.lock"):
        if not packages.exists():
            shutil.rmtree(draft, ignore_errors=True)
            draft.mkdir()
            for file in locked:
                shutil.copy(file, draft)
            # Without a network, npm would try again for a minute.
            _run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=0"], draft)
            draft.rename(packages)
    copy = shutil.copytree(project, into, ignore=shutil.ignore_patterns("node_modules"))
    (copy / "node_modules").symlink_to(packages / "node_modules")
    return copy


def _run(command: Sequence[str], folder: Path) -> None:
    """Do one step of an installation, or skip the test."""
    try:
        subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=True)
    except subprocess.CalledProcessError as error:
        said = error.stderr.strip().splitlines() or ["it does not say why"]
        pytest.skip(f"{command[0]} can't install what this test needs: {said[-1]}")
    except (OSError, subprocess.TimeoutExpired) as error:
        pytest.skip(f"this test needs an installation that fails here: {error}")
