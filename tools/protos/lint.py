"""Lints the contract, and finds changes that break callers of the main branch's contract.

    python -m tools.protos.lint   exit 1 if buf finds anything

buf gets descriptors, not .proto files: these import google/api/annotations.proto, which buf would fetch over the network,
while protoc finds it among the installed packages.
"""

from __future__ import annotations

import io
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from pathlib import Path

from tools.protos.files import PROTOS, ROOT, protoc

MAIN = "main"


def image(protos: Path, path: Path) -> Path:
    """Writes the descriptors of a folder of .proto files, comments included, and returns the path."""
    protoc(protos, "--include_imports", "--include_source_info", f"--descriptor_set_out={path}")
    return path


def protos_of_main(into: Path) -> Path | None:
    """Returns the main branch's .proto files, or None if there is no such branch."""
    archive = subprocess.run(["git", "archive", f"{MAIN}:protos"], cwd=ROOT, capture_output=True, check=False)
    if archive.returncode:
        return None
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(into, filter="data")
    return into


def buf(*arguments: str | Path) -> bool:
    """Runs buf with our rules. Returns whether it found nothing."""
    command = [Path(sysconfig.get_path("scripts")) / "buf", *arguments, "--config", PROTOS / "buf.yaml"]
    return subprocess.run(command, check=False).returncode == 0


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ours = image(PROTOS, folder / "ours.binpb")
        clean = buf("lint", ours)
        theirs = protos_of_main(folder / MAIN)
        if theirs is None:
            print("buf breaking: no main branch to compare with")
        else:
            clean &= buf("breaking", ours, "--against", image(theirs, folder / "main.binpb"))
    return 0 if clean else 1


if __name__ == "__main__":
    sys.exit(main())
