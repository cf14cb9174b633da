"""Exported graphs of checkpoints, made once and kept in a cache folder."""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bertscope_service.checkpoints.atomic_folder import FULL, atomic_folder, unwritable
from bertscope_service.checkpoints.locked_folders import UNFINISHED_PREFIX
from bertscope_service.checkpoints.manifest import FORMAT, Manifest, read_manifest, write_manifest
from bertscope_service.checkpoints.sources import Source, calling
from bertscope_service.compression.onnx.isolated_export import export_onnx
from bertscope_service.compression.working_copy import copy_description
from bertscope_service.errors import AlreadyExists, FailedPrecondition
from bertscope_service.models.kept_exports import export_versions, exports_folder, locked, note_use, prune

logger = logging.getLogger(__name__)

NAME = "the cache of exported graphs"
"""The cache's name in errors: its path concerns the operator, not callers."""

CONTENTS = 2
"""Counts up when graphs hold more than those that the same libraries wrote before: 2, heads over positions."""


def exported(source: Source, digest: str, cache: Path, check: Callable[[], None] = lambda: None) -> Path:
    """Returns the folder with the graphs of a checkpoint whose weights have this digest; writes it into the cache if it is
    missing.

    The key names the digest and the versions of all libraries that shape a graph, so that an upgrade exports anew. Blocks for
    seconds, longer while another process writes into the cache; `check` is called several times a second during the export and
    may raise, to abandon it. Raises FailedPrecondition for a source that can't be exported, or a cache that can't be written.
    """
    versions = export_versions()
    try:
        graphs = exports_folder(cache)
    except RuntimeError as error:  # a user without a home directory
        raise _unwritable(cache, error) from error
    folder = graphs / _name(source, digest)
    if _is_whole(folder):
        note_use(folder)
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
        prune(graphs)
    return folder


def kept_export(source: Source, cache: Path, digest: Callable[[], str]) -> Manifest | None:
    """Returns the manifest of the graphs of a checkpoint, if the cache has them. `digest` returns that of the checkpoint's
    weights; it is called only if the cache has graphs of a checkpoint with the same config.json. Raises OSError."""
    try:
        graphs = exports_folder(cache)
        if not any(graphs.glob(f"{_name(source)}*")):
            return None
        return read_manifest(graphs / _name(source, digest()))
    except (RuntimeError, FailedPrecondition):
        return None


def _name(source: Source, digest: str = "") -> str:
    """Returns the name of the folder with a checkpoint's graphs; without its digest, how those of all checkpoints with this
    config.json begin."""
    config = (source.folder / "config.json").read_bytes()
    key = json.dumps([FORMAT, CONTENTS, hashlib.sha256(config).hexdigest(), sorted(export_versions().items())])
    return f"{hashlib.sha256(key.encode()).hexdigest()[:32]}-{digest.removeprefix('sha256:')[:32]}"


def _is_whole(folder: Path) -> bool:
    try:
        return read_manifest(folder) is not None
    except FailedPrecondition:
        return False


@contextmanager
def _alone_in(graphs: Path) -> Iterator[None]:
    """Locks the cache, waiting for other writers. Raises FailedPrecondition if it can't be written."""
    with ExitStack() as held:
        try:
            graphs.mkdir(parents=True, exist_ok=True)
            held.enter_context(locked(graphs))
        except OSError as error:
            raise _unwritable(graphs, error) from error
        yield


def _unwritable(folder: Path, error: Exception) -> FailedPrecondition:
    if getattr(error, "errno", None) in FULL:
        full = unwritable(folder, error)
        full.rename(str(folder), NAME)
        return full
    why = getattr(error, "strerror", None) or error
    logger.warning("%s, %s, can't be written: %s", NAME, folder, why)
    message = f"{NAME} can't be written: {why}; choose another folder with --cache-folder"
    return FailedPrecondition(message, "FOLDER_UNWRITABLE")
