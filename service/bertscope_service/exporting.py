"""Exported graphs of checkpoints, made once and kept in a cache folder."""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bertscope import __version__

from bertscope_service.compression.drafts import DRAFT_PREFIX, draft
from bertscope_service.compression.manifest import FORMAT, Manifest, exporter_versions, read_manifest, write_manifest
from bertscope_service.compression.onnx_export import export_onnx
from bertscope_service.compression.workpiece import copy_description
from bertscope_service.errors import AlreadyExists, FailedPrecondition
from bertscope_service.sources import Source, calling

logger = logging.getLogger(__name__)

NAME = "the cache of exported graphs"
"""What errors call it: where it is concerns the operator, not callers."""

LOCK = "lock"
"""File in the cache that whoever writes into it has locked; the system unlocks it when that process ends, however it ends."""


def exported(source: Source, digest: str, cache: Path) -> Path:
    """The folder with the graphs of a checkpoint whose weights have this digest; written into the cache if it is not there.

    Its key names the digest and the versions of all that shapes a graph, so an upgrade exports anew. Blocks for seconds, longer
    while another process writes into the cache. Raises FailedPrecondition for a source that can't be exported, or a cache that
    can't be written.
    """
    versions = {"bertscope": __version__, **exporter_versions()}
    config = (source.folder / "config.json").read_bytes()
    key = json.dumps([FORMAT, digest, hashlib.sha256(config).hexdigest(), sorted(versions.items())])
    try:
        graphs = cache.expanduser().absolute() / "onnx"
    except RuntimeError as error:  # a user without a home directory
        raise _unwritable(cache, error) from error
    folder = graphs / hashlib.sha256(key.encode()).hexdigest()[:32]
    if _is_whole(folder):
        return folder
    with _alone_in(graphs):
        if _is_whole(folder):  # written while we waited
            return folder
        for remains in (folder, *graphs.glob(f"{DRAFT_PREFIX}*")):
            discard(remains)
        logger.info("exporting %s for ONNX Runtime, which takes some seconds; kept in %s", source.folder, graphs)
        try:
            with calling((graphs, NAME)), draft(folder) as beside:
                applied, details = export_onnx(source.folder, source.architecture, beside)
                copy_description(source.folder, beside)
                write_manifest(beside, Manifest("onnx", digest, applied, versions, details))
        except AlreadyExists as error:
            raise _unwritable(folder, error) from error
    return folder


def discard(folder: Path) -> None:
    """Remove graphs that can't be used, or what a server that was killed left of them."""
    shutil.rmtree(folder, ignore_errors=True)


def _is_whole(folder: Path) -> bool:
    try:
        return read_manifest(folder) is not None
    except FailedPrecondition:
        return False


@contextmanager
def _alone_in(graphs: Path) -> Iterator[None]:
    """Wait until nobody else writes into the cache, and keep others out. Raises FailedPrecondition if it can't be written."""
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
