"""The exported graphs that lie in a cache folder: what they are, how large, when a server last used them, and their removal.

Imports no PyTorch: `bertscope cache` shows them at once.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from bertscope import __version__

from bertscope_service.checkpoints.manifest import MANIFEST, exporter_versions, read_manifest
from bertscope_service.errors import FailedPrecondition

logger = logging.getLogger(__name__)

UNUSED_SECONDS = 7 * 24 * 3600.0
"""Exports of other versions are kept for this time after their last use: servers of both run side by side during an upgrade."""

LOCK = "lock"
"""File in the cache that its writer locks; the system unlocks it when that process ends, for any reason."""


@dataclass(frozen=True, slots=True)
class KeptExport:
    """The graphs of a checkpoint.

    model: its kind and size. digest: of its weights, "" if it can't be read. bertscope: the version that exported it.
    size_bytes: of its files. used: when a server last loaded it, seconds since 1970. current: this installation would use it.
    """

    folder: Path
    model: str
    digest: str
    bertscope: str
    size_bytes: int
    used: float
    current: bool


def exports_folder(cache: Path) -> Path:
    """Returns the folder of exports in a cache. Raises RuntimeError for a user without a home directory."""
    return cache.expanduser().absolute() / "onnx"


def export_versions() -> Mapping[str, str]:
    """Returns the versions of all that shapes a graph."""
    return {"bertscope": __version__, **exporter_versions()}


def kept_exports(cache: Path) -> list[KeptExport]:
    """Returns all whole exports of a cache folder, the last used first; none if it can't be read."""
    with suppress(OSError, RuntimeError):
        return sorted(_read(exports_folder(cache)), key=lambda export: -export.used)
    return []


def exports_bytes(cache: Path) -> int:
    """Returns the size of all exports in a cache folder, also of unfinished ones; 0 if it can't be read."""
    with suppress(OSError, RuntimeError):
        return _size(exports_folder(cache))
    return 0


def note_use(folder: Path) -> None:
    """Notes in an export's time that a server uses it; not in a cache that may only be read."""
    with suppress(OSError):
        os.utime(folder / MANIFEST)


def prune(
    graphs: Path, unused_seconds: float = UNUSED_SECONDS, *, current: bool = False, dry_run: bool = False
) -> list[KeptExport]:
    """Removes exports of other versions that no server has loaded for some time, with `current` also those of this one. Returns
    the removed ones, with `dry_run` those that it would remove. The caller holds the lock."""
    before = time.time() - unused_seconds
    removed = []
    for export in _read(graphs):
        if export.used < before and (current or not export.current):
            with suppress(OSError):
                if not dry_run:
                    shutil.rmtree(export.folder)
                    logger.info("removed %s, exported by bertscope %s and long unused", export.folder, export.bertscope)
                removed.append(export)
    return removed


def prune_unless_busy(cache: Path) -> None:
    """Removes old exports when a server starts; not while another process writes, which does so itself after it."""
    with suppress(OSError, RuntimeError):
        graphs = exports_folder(cache)
        if graphs.is_dir():
            with locked(graphs, wait=False):
                prune(graphs)


@contextmanager
def locked(graphs: Path, *, wait: bool = True) -> Iterator[None]:
    """Locks the exports against other writers. Raises OSError if they can't be written, or without `wait` if another writes."""
    with (graphs / LOCK).open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield


def _read(graphs: Path) -> Iterator[KeptExport]:
    versions = export_versions()
    for path in graphs.glob(f"[!.]*/{MANIFEST}"):
        with suppress(OSError):  # another process has removed it
            used = path.stat().st_mtime
            try:
                manifest = read_manifest(path.parent)
            except FailedPrecondition:  # of a version that this one can't read
                manifest = None
            found = {} if manifest is None else dict(manifest.versions)
            yield KeptExport(
                path.parent,
                _model(path.parent),
                "" if manifest is None else manifest.source_digest,
                found.get("bertscope", "?"),
                _size(path.parent),
                used,
                found == versions,
            )


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _model(folder: Path) -> str:
    """Returns "bert, 12 layers of 768", from the config.json beside the graphs; "?" if there is none."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        layers = config.get("num_hidden_layers", config.get("n_layers"))
        size = config.get("hidden_size", config.get("dim"))
        return f"{config['model_type']}, {layers} layers of {size}" if layers and size else str(config["model_type"])
    except (OSError, ValueError, KeyError, AttributeError):
        return "?"
