"""Exported graphs of checkpoints, made once and kept in a cache folder."""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from bertscope import __version__

from bertscope_service.checkpoints.atomic_folder import UNFINISHED_PREFIX, atomic_folder
from bertscope_service.checkpoints.manifest import FORMAT, MANIFEST, Manifest, exporter_versions, read_manifest, write_manifest
from bertscope_service.checkpoints.sources import Source, calling
from bertscope_service.compression.onnx.isolated_export import export_onnx
from bertscope_service.compression.working_copy import copy_description
from bertscope_service.errors import AlreadyExists, FailedPrecondition

logger = logging.getLogger(__name__)

NAME = "the cache of exported graphs"
"""The cache's name in errors: its path concerns the operator, not callers."""

CONTENTS = 2
"""Counts up when graphs hold more than those that the same libraries wrote before: 2, heads over positions."""

UNUSED_SECONDS = 7 * 24 * 3600.0
"""Exports of other versions are kept for this time after their last use: servers of both run side by side during an upgrade."""

LOCK = "lock"
"""File in the cache that its writer locks; the system unlocks it when that process ends, for any reason."""


def exported(source: Source, digest: str, cache: Path, check: Callable[[], None] = lambda: None) -> Path:
    """Returns the folder with the graphs of a checkpoint whose weights have this digest; writes it into the cache if it is
    missing.

    The key names the digest and the versions of all libraries that shape a graph, so that an upgrade exports anew. Blocks for
    seconds, longer while another process writes into the cache; `check` is called several times a second during the export and
    may raise, to abandon it. Raises FailedPrecondition for a source that can't be exported, or a cache that can't be written.
    """
    versions = {"bertscope": __version__, **exporter_versions()}
    try:
        graphs = _graphs(cache)
    except RuntimeError as error:  # a user without a home directory
        raise _unwritable(cache, error) from error
    folder = graphs / _name(source, digest)
    if _is_whole(folder):
        _note_use(folder)
        return folder
    with _alone_in(graphs):
        if _is_whole(folder):  # another process wrote it meanwhile
            return folder
        # Graphs that can't be used, or that a killed server left unfinished.
        for remains in (folder, *graphs.glob(f"{UNFINISHED_PREFIX}*")):
            shutil.rmtree(remains, ignore_errors=True)
        logger.info("exporting %s for ONNX Runtime, which takes some seconds; kept in %s", source.folder, graphs)
        try:
            with calling((graphs, NAME)), atomic_folder(folder) as beside:
                applied, details = export_onnx(source.folder, source.architecture, beside, check=check)
                copy_description(source.folder, beside)
                write_manifest(beside, Manifest("onnx", digest, applied, versions, details))
        except AlreadyExists as error:
            raise _unwritable(folder, error) from error
        _prune(graphs, versions)
    return folder


def kept_export(source: Source, cache: Path, digest: Callable[[], str]) -> Manifest | None:
    """Returns the manifest of the graphs of a checkpoint, if the cache has them. `digest` returns that of the checkpoint's
    weights; it is called only if the cache has graphs of a checkpoint with the same config.json. Raises OSError."""
    try:
        graphs = _graphs(cache)
        if not any(graphs.glob(f"{_name(source)}*")):
            return None
        return read_manifest(graphs / _name(source, digest()))
    except (RuntimeError, FailedPrecondition):
        return None


def _graphs(cache: Path) -> Path:
    """Returns the folder of exports in a cache. Raises RuntimeError for a user without a home directory."""
    return cache.expanduser().absolute() / "onnx"


def _name(source: Source, digest: str = "") -> str:
    """Returns the name of the folder with a checkpoint's graphs; without its digest, how those of all checkpoints with this
    config.json begin."""
    config = (source.folder / "config.json").read_bytes()
    versions = {"bertscope": __version__, **exporter_versions()}
    key = json.dumps([FORMAT, CONTENTS, hashlib.sha256(config).hexdigest(), sorted(versions.items())])
    return f"{hashlib.sha256(key.encode()).hexdigest()[:32]}-{digest.removeprefix('sha256:')[:32]}"


def exports_bytes(cache: Path) -> int:
    """Returns the size of all exports in a cache folder; 0 if it can't be read."""
    with suppress(OSError, RuntimeError):
        return sum(path.stat().st_size for path in _graphs(cache).rglob("*") if path.is_file())
    return 0


def _note_use(folder: Path) -> None:
    """Notes in an export's time that a server uses it; not in a cache that may only be read."""
    with suppress(OSError):
        os.utime(folder / MANIFEST)


def _prune(graphs: Path, versions: Mapping[str, str]) -> None:
    """Removes exports of other versions that no server has loaded for UNUSED_SECONDS."""
    before = time.time() - UNUSED_SECONDS
    for path in graphs.glob(f"*/{MANIFEST}"):
        with suppress(OSError, FailedPrecondition):
            manifest = read_manifest(path.parent)
            if manifest is not None and dict(manifest.versions) != versions and path.stat().st_mtime < before:
                shutil.rmtree(path.parent)
                logger.info("removed %s, which other versions exported and no server has loaded for days", path.parent)


def _is_whole(folder: Path) -> bool:
    try:
        return read_manifest(folder) is not None
    except FailedPrecondition:
        return False


@contextmanager
def _alone_in(graphs: Path) -> Iterator[None]:
    """Locks the cache, waiting for other writers. Raises FailedPrecondition if it can't be written."""
    try:
        graphs.mkdir(parents=True, exist_ok=True)
        file = (graphs / LOCK).open("ab")
    except OSError as error:
        raise _unwritable(graphs, error) from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError as error:
            raise _unwritable(graphs, error) from error
        yield


def _unwritable(folder: Path, error: Exception) -> FailedPrecondition:
    why = getattr(error, "strerror", None) or error
    logger.warning("%s, %s, can't be written: %s", NAME, folder, why)
    message = f"{NAME} can't be written: {why}; choose another folder with --cache-folder"
    return FailedPrecondition(message, "FOLDER_UNWRITABLE")
