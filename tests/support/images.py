"""Images, built without Docker: by buildah, in a storage of their own, on a Debian that debootstrap installs."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import pytest

from tests.support.patience import granted

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ("buildah", "debootstrap")
SUITES = {(3, 11): "bookworm", (3, 13): "trixie"}
"""Debian's releases by their Python, which has to be this one: the PyTorch that is installed into the image is for it."""
BUILD_SECONDS = granted(1200)


class Images:
    """A storage of images and containers, removed at the end. Skips the test where there can be none."""

    def __init__(self, folder: Path) -> None:
        missing = [tool for tool in TOOLS if shutil.which(tool) is None]
        if missing:
            pytest.skip(f"{' and '.join(missing)} not installed: Debian has both")
        if os.geteuid() != 0:
            pytest.skip("only root can install a Debian for the image to begin with")
        if sys.version_info[:2] not in SUITES:
            pytest.skip(f"no Debian has Python {sys.version_info.major}.{sys.version_info.minor}")
        self._folder = folder
        self._storage = ("--root", str(folder / "storage"), "--runroot", str(folder / "run"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.run("rm", "--all")
        self.run("rmi", "--all", "--force")
        shutil.rmtree(self._folder, ignore_errors=True)

    def run(self, *arguments: str) -> str:
        """What a command of buildah writes."""
        done = subprocess.run(
            self.command(*arguments), cwd=ROOT, capture_output=True, text=True, timeout=BUILD_SECONDS, check=False
        )
        assert done.returncode == 0, f"{arguments[0]}: {(done.stdout + done.stderr)[-4000:]}"
        return done.stdout.strip()

    def command(self, *arguments: str) -> list[str]:
        return ["buildah", *self._storage, *arguments]

    def debian(self, name: str, packages: Sequence[str]) -> None:
        """A small Debian with some packages."""
        container = self.run("from", "scratch")
        place = self.run("mount", container)
        flags = ("--variant=minbase", f"--include={','.join(packages)}", SUITES[sys.version_info[:2]])
        done = subprocess.run(["debootstrap", *flags, place], capture_output=True, text=True, timeout=granted(600), check=False)
        if done.returncode:
            pytest.skip(f"no Debian can be installed here: {done.stdout[-300:]}")
        self.run("commit", "--rm", "--quiet", container, name)

    def of_file(self, name: str, file: Path) -> None:
        """An image of one program, in its root."""
        container = self.run("from", "scratch")
        self.run("copy", "--quiet", container, str(file), f"/{file.name}")
        self.run("commit", "--rm", "--quiet", container, name)

    def settings(self, image: str) -> dict[str, Any]:
        """The configuration of an image."""
        found: dict[str, Any] = json.loads(self.run("inspect", "--type", "image", image))["Docker"]["config"]
        return found
