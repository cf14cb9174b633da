"""Finds the folder of a source: the embedded model, a folder, an ONNX file in one, or a hub id.

Only config, tokenizer, safetensors and ONNX files are read. Pickle is refused and code in a checkpoint is never run.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils import validate_repo_id

from bertscope_service.checkpoints.confinement import ANYWHERE, Confinement
from bertscope_service.checkpoints.external_references import check_config
from bertscope_service.checkpoints.files import DECLARED_POOLING_PATTERNS, MAX_SETTINGS_BYTES, TOKENIZER_PATTERNS, check_size
from bertscope_service.checkpoints.hub import download
from bertscope_service.embedded import EMBEDDED, EMBEDDED_FOLDER
from bertscope_service.encoders.onnx.foreign_graphs import foreign_files
from bertscope_service.encoders.onnx.values import ANALYSIS, FAST, WEIGHTS
from bertscope_service.encoders.refusals import unreadable
from bertscope_service.encoders.torch.architectures import ARCHITECTURES, NO_MAPS
from bertscope_service.encoders.weight_files import weight_files
from bertscope_service.errors import FailedPrecondition, InvalidArgument, ServiceError

CHECKPOINT_FILES = ("config.json", "*.safetensors", "*.safetensors.index.json", *TOKENIZER_PATTERNS)
EXPORT_FILES = ("bertscope.json", ANALYSIS, FAST, WEIGHTS)
HUB_FILES = CHECKPOINT_FILES + EXPORT_FILES + DECLARED_POOLING_PATTERNS
ONNX = ".onnx"

REVISION = re.compile(r"(?!.*\.\.)[\w.+@#=-]+(/[\w.+@#=-]+)*")
"""A branch, a tag or a commit. The hub's library uses it as a part of a path."""


COMMIT = re.compile(r"[0-9a-f]{40}")


class Stage(Enum):
    """The steps of a load, in their order."""

    RESOLVING = "resolving"
    DOWNLOADING = "downloading"
    READING = "reading"
    WARMING_UP = "warming up"


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a load; bytes are 0 where they are not counted."""

    stage: Stage
    done_bytes: int = 0
    total_bytes: int = 0
    detail: str = ""


Report = Callable[[Progress], None]
"""Receives progress from the loading thread; may raise, which abandons the load."""


Names = tuple[tuple[Path, str], ...]
"""Names of paths in errors."""


class Kind(Enum):
    """The kind of a source's weights."""

    CHECKPOINT = "safetensors of transformers"
    EXPORT = "graphs that bertscope exported"
    FOREIGN = "an ONNX file that another program exported"


@dataclass(frozen=True, slots=True)
class Source:
    """A folder that can be hosted: config, tokenizer, and weights, which may be elsewhere for kind FOREIGN.

    `names` are used in errors for places that the caller did not name; `confinement` is where all files must lie. `revision` is
    the hub's commit, "" for a source that is not on the hub.
    """

    folder: Path
    architecture: str
    weight_files: tuple[Path, ...]
    kind: Kind = Kind.CHECKPOINT
    names: Names = ()
    confinement: Confinement = ANYWHERE
    revision: str = ""

    def named(self) -> AbstractContextManager[None]:
        """Lets errors inside the block name places as the caller did."""
        return calling(*self.names)

    @property
    def weight_bytes(self) -> int:
        return sum(path.stat().st_size for path in self.weight_files)

    def digest(self, report: Report) -> str:
        """Returns "sha256:..." over the weight files in order of their names."""
        digest, done, total = hashlib.sha256(), 0, self.weight_bytes
        for path in self.weight_files:
            with path.open("rb") as file:
                while chunk := file.read(8 * 1024 * 1024):
                    digest.update(chunk)
                    done += len(chunk)
                    report(Progress(Stage.READING, done, total, path.name))
        return f"sha256:{digest.hexdigest()}"


@contextmanager
def calling(*names: tuple[Path, str]) -> Iterator[None]:
    """Replaces paths by names in errors raised inside the block, so that callers don't see the server's paths."""
    try:
        yield
    except ServiceError as error:
        for path, name in names:
            error.rename(str(path), name)
        raise


def locate(source: str, revision: str, report: Report, confinement: Confinement = ANYWHERE) -> Source:
    """Returns the folder of a source, downloaded first if it is a hub id.

    All files of a folder must lie within `confinement`, those of a hub id within the download. Raises FailedPrecondition or
    Unavailable, naming the file or the network step that failed; InvalidArgument for a source that is neither a folder, nor an
    ONNX file, nor the form of a hub id; PermissionDenied.
    """
    report(Progress(Stage.RESOLVING, detail=source))
    if revision and (source == EMBEDDED or is_path(source)):
        message = f"{source} is not on the hub, so it has no revisions; leave revision empty"
        raise InvalidArgument("revision", message, "REVISION_UNUSED")
    if source == EMBEDDED:
        return inspect(EMBEDDED_FOLDER)
    if is_path(source):
        return _locate_path(source, confinement)
    if not is_hub_id(source):
        message = f"{source!r} is neither a folder on the server nor a hub id; write a path or OWNER/NAME"
        raise InvalidArgument("source", message, "MALFORMED_SOURCE")
    if revision and not REVISION.fullmatch(revision):
        message = f"revision {revision!r} is malformed; give a branch, a tag or a commit of {source}"
        raise InvalidArgument("revision", message, "MALFORMED_REVISION")

    def report_bytes(done: int, total: int) -> None:
        report(Progress(Stage.DOWNLOADING, done, total, source))

    folder = download(source, revision, HUB_FILES, report_bytes)
    # A snapshot's files are links to blobs in the hub's folder of this model.
    whole = folder.parents[1]
    names = (folder, source), (whole, source)
    with calling(*names):
        # The hub's library names the folder of a snapshot after its commit.
        revision = folder.name if COMMIT.fullmatch(folder.name) else ""
        return replace(inspect(folder, Confinement((whole,))), names=names, revision=revision)


def is_path(source: str) -> bool:
    """Checks that a source is a folder or a file, not a hub id, by its form or by the existence of the folder."""
    try:
        return source.startswith(("/", ".", "~")) or source.endswith(ONNX) or Path(source).is_dir()
    except (OSError, ValueError):  # not a possible file name
        return False


def is_hub_id(source: str) -> bool:
    """Checks that a source has the form of a hub id."""
    try:
        validate_repo_id(source)
    except HFValidationError:
        return False
    return True


def _locate_path(source: str, confinement: Confinement) -> Source:
    try:
        path, user = Path(source).expanduser(), source.partition("/")[0]
        names: Names = ((Path(user).expanduser(), user),) if user.startswith("~") else ()
        with calling(*names):
            one_file = source.endswith(ONNX) and not path.is_dir()
            found = inspect_onnx(path, confinement) if one_file else inspect(path, confinement)
        return replace(found, names=names)
    except RuntimeError as error:  # no such user
        raise unreadable(source, f"{source} can't be found: {error}") from error
    except (OSError, ValueError) as error:
        raise unreadable(source, f"{source} can't be read: {error}") from error


def inspect(folder: Path, confinement: Confinement = ANYWHERE) -> Source:
    """Checks a checkpoint folder before anything large is read.

    Raises FailedPrecondition, naming the problem, and PermissionDenied for files that don't lie within `confinement`.
    """
    try:
        confinement.check(folder)
        if not folder.is_dir():
            raise unreadable(folder, f"the server has no folder {folder}")
        config = read_config(folder)
        if (folder / FAST).is_file():
            architecture = _architecture(folder / "config.json", config)
            return Source(folder, architecture, _export_files(folder), Kind.EXPORT, confinement=confinement)
        # Hub ids with graphs have them in a folder of their own.
        files = sorted(folder.glob(f"*{ONNX}")) or sorted(folder.glob(f"onnx/*{ONNX}"))
        if files and not any(folder.glob("*.safetensors*")):
            preferred = [path for path in files if path.stem == "model"]
            if len(files) > 1 and not preferred:
                names = ", ".join(path.name for path in files)
                raise unreadable(folder, f"{folder} holds several graphs ({names}); name one of these files as the source")
            return inspect_onnx((preferred or files)[0], confinement)
        architecture = _architecture(folder / "config.json", config)
        return Source(folder, architecture, weight_files(folder), confinement=confinement)
    except (OSError, ValueError) as error:
        raise unreadable(folder, f"{folder} can't be read: {error}") from error


def inspect_onnx(file: Path, confinement: Confinement = ANYWHERE) -> Source:
    """Checks an ONNX file. Its config and tokenizer lie beside it or, if it is in a folder "onnx", one folder up.

    Raises FailedPrecondition, naming the problem; PermissionDenied.
    """
    folder = file.parent
    confinement.check(folder)
    if not file.is_file():
        raise unreadable(file, f"the server has no file {file}")
    if file.name in (FAST, ANALYSIS):
        raise unreadable(file, f"{file} is one of several files of an export; name its folder {file.parent} as the source")
    parent = folder.parent
    if not (folder / "config.json").is_file() and confinement.holds(parent) and (parent / "config.json").is_file():
        folder = parent
        confinement.check(folder)
    kind = str(read_config(folder).get("model_type"))
    return Source(folder, kind, foreign_files(file), Kind.FOREIGN, confinement=confinement)


def _export_files(folder: Path) -> tuple[Path, ...]:
    """Returns graphs and weights of an export, in order of their names."""
    files = tuple(folder / name for name in sorted((ANALYSIS, FAST, WEIGHTS)))
    for path in files:
        if not path.is_file():
            raise unreadable(folder, f"{path} does not exist; the export is not whole, make it again")
    return files


def _architecture(path: Path, config: dict[str, Any]) -> str:
    """Returns the model_type of a config, if it is a supported one."""
    kind = config.get("model_type")
    if not isinstance(kind, str) or kind not in ARCHITECTURES:
        known, why = ", ".join(sorted(ARCHITECTURES)), NO_MAPS.get(str(kind))
        message = f"{path} says model_type {kind!r}{f', which is not hosted: {why}' if why else ''}; bertscope hosts {known}"
        raise FailedPrecondition(message, "ARCHITECTURE_UNSUPPORTED", model_type=kind, source=path.parent)
    if config.get("is_decoder"):
        message = f"{path} says is_decoder: true; bertscope hosts encoders"
        raise FailedPrecondition(message, "ARCHITECTURE_UNSUPPORTED", source=path.parent)
    positions = ARCHITECTURES[kind].position_types
    if config.get("position_embedding_type", positions[0]) not in positions:
        # transformers 5 would read such a checkpoint without its relative positions.
        found = config["position_embedding_type"]
        message = (
            f"{path} says position_embedding_type {found!r}; {kind} can be hosted with {' or '.join(positions)} positions only"
        )
        raise FailedPrecondition(message, "ARCHITECTURE_UNSUPPORTED", source=path.parent)
    return kind


def read_config(folder: Path) -> dict[str, Any]:
    """Reads the config.json of a model's folder. Raises FailedPrecondition."""
    path = folder / "config.json"
    try:
        check_size(path, MAX_SETTINGS_BYTES)
        config = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise unreadable(folder, f"{path} does not exist; a model is a folder with config.json and *.safetensors") from None
    except (OSError, ValueError, RecursionError) as error:
        raise unreadable(folder, f"{path} can't be read: {error}") from error
    if not isinstance(config, dict):
        raise unreadable(folder, f"{path} is not a JSON object")
    check_config(path, config)
    return config
