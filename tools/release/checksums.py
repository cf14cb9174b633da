"""Writes checksums of published files, in the form that `sha256sum --check` reads."""

from __future__ import annotations

import hashlib
from pathlib import Path

NAME = "SHA256SUMS"


def write_checksums(folder: Path) -> Path:
    """Writes the SHA-256 of every file of a folder into its SHA256SUMS."""
    files = sorted(file for file in folder.iterdir() if file.name != NAME and not file.name.startswith("."))
    sums = folder / NAME
    sums.write_text("".join(f"{_digest(file)}  {file.name}\n" for file in files), encoding="utf-8")
    return sums


def _digest(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
