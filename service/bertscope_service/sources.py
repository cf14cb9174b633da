"""From what a user writes to a folder: the embedded model, a folder, an ONNX file in one, or a hub id.

Only config, tokenizer, safetensors and ONNX files are read. Pickle is refused and code in a checkpoint is never run.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import huggingface_hub
from huggingface_hub import errors as hub
from huggingface_hub.utils import tqdm as hub_tqdm
from huggingface_hub.utils import validate_repo_id

from bertscope_service.encoders.onnx_foreign import foreign_files
from bertscope_service.encoders.onnx_values import ANALYSIS, FAST, WEIGHTS
from bertscope_service.encoders.torch_architectures import ARCHITECTURES
from bertscope_service.errors import FailedPrecondition, InvalidArgument, Unavailable

EMBEDDED = "bertscope-mini"
EMBEDDED_FOLDER = Path(__file__).parent / "models" / EMBEDDED
CHECKPOINT_FILES = (
    "config.json",
    "*.safetensors",
    "*.safetensors.index.json",
    "tokenizer*",
    "vocab.*",
    "merges.txt",
    "*.model",
)
EXPORT_FILES = ("bertscope.json", ANALYSIS, FAST, WEIGHTS)
HUB_FILES = CHECKPOINT_FILES + EXPORT_FILES
ONNX = ".onnx"
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")


class LoadAbandonedError(Exception):
    """Raised inside the loading thread once nobody waits for the model."""


class Stage(Enum):
    """Steps of a load, in their order."""

    RESOLVING = "resolving"
    DOWNLOADING = "downloading"
    READING = "reading"
    WARMING_UP = "warming up"


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a load is; bytes are 0 where they are not counted."""

    stage: Stage
    done_bytes: int = 0
    total_bytes: int = 0
    detail: str = ""


Report = Callable[[Progress], None]
"""Called from the loading thread; may raise, which abandons the load."""


class Kind(Enum):
    """What the weights of a source are."""

    CHECKPOINT = "safetensors of transformers"
    EXPORT = "graphs that bertscope exported"
    FOREIGN = "an ONNX file that another program exported"


@dataclass(frozen=True, slots=True)
class Source:
    """A folder that can be hosted: config and tokenizer, and weights, which may lie elsewhere if they are of kind FOREIGN."""

    folder: Path
    architecture: str
    weight_files: tuple[Path, ...]
    kind: Kind = Kind.CHECKPOINT

    @property
    def weight_bytes(self) -> int:
        return sum(path.stat().st_size for path in self.weight_files)

    def digest(self, report: Report) -> str:
        """ "sha256:..." over the weight files in order of their names."""
        digest, done, total = hashlib.sha256(), 0, self.weight_bytes
        for path in self.weight_files:
            with path.open("rb") as file:
                while chunk := file.read(8 * 1024 * 1024):
                    digest.update(chunk)
                    done += len(chunk)
                    report(Progress(Stage.READING, done, total, path.name))
        return f"sha256:{digest.hexdigest()}"


def locate(source: str, revision: str, report: Report) -> Source:
    """The folder of a source, downloaded first if it is a hub id.

    Raises FailedPrecondition or Unavailable, naming the file or the network step that failed; InvalidArgument for a source that
    is neither a folder, nor an ONNX file, nor the form of a hub id.
    """
    report(Progress(Stage.RESOLVING, detail=source))
    if revision and (source == EMBEDDED or source.endswith(ONNX) or _is_folder(source)):
        message = f"{source} is not on the hub, so it has no revisions; leave revision empty"
        raise InvalidArgument("revision", message, "REVISION_UNUSED")
    if source == EMBEDDED:
        return inspect(EMBEDDED_FOLDER)
    if source.endswith(ONNX) or _is_folder(source):
        try:
            path = Path(source).expanduser()
            return inspect_onnx(path) if source.endswith(ONNX) and not path.is_dir() else inspect(path)
        except RuntimeError as error:  # the home directory of nobody
            raise _unreadable(source, f"{source} can't be found: {error}") from error
        except OSError as error:
            raise _unreadable(source, f"{source} can't be read: {error}") from error
    try:
        validate_repo_id(source)
    except hub.HFValidationError:
        message = f"{source!r} is neither a folder on the server nor a hub id; write a path or OWNER/NAME"
        raise InvalidArgument("source", message, "MALFORMED_SOURCE") from None
    return inspect(_download(source, revision, report))


def _is_folder(source: str) -> bool:
    try:
        return source.startswith(("/", ".", "~")) or Path(source).is_dir()
    except (OSError, ValueError):  # no file could have such a name
        return False


def inspect(folder: Path) -> Source:
    """Check a checkpoint folder before anything large is read. Raises FailedPrecondition, naming what is wrong."""
    try:
        if not folder.is_dir():
            raise _unreadable(folder, f"the server has no folder {folder}")
        config = read_config(folder)
        if (folder / FAST).is_file():
            architecture = _architecture(folder / "config.json", config)
            return Source(folder, architecture, _export_files(folder), Kind.EXPORT)
        # Hub ids that hold graphs keep them in a folder of their own.
        files = sorted(folder.glob(f"*{ONNX}")) or sorted(folder.glob(f"onnx/*{ONNX}"))
        if files and not any(folder.glob("*.safetensors*")):
            preferred = [path for path in files if path.stem == "model"]
            if len(files) > 1 and not preferred:
                names = ", ".join(path.name for path in files)
                raise _unreadable(folder, f"{folder} holds several graphs ({names}); name one of these files as the source")
            return inspect_onnx((preferred or files)[0])
        return Source(folder, _architecture(folder / "config.json", config), _weight_files(folder))
    except (OSError, ValueError) as error:
        raise _unreadable(folder, f"{folder} can't be read: {error}") from error


def inspect_onnx(file: Path) -> Source:
    """Check an ONNX file: its config and tokenizer lie beside it or, if it is in a folder "onnx", one folder up.

    Raises FailedPrecondition, naming what is wrong.
    """
    if not file.is_file():
        raise _unreadable(file, f"the server has no file {file}")
    if file.name in (FAST, ANALYSIS):
        raise _unreadable(file, f"{file} is one of several files of an export; name its folder {file.parent} as the source")
    folder = file.parent
    if not (folder / "config.json").is_file() and (folder.parent / "config.json").is_file():
        folder = folder.parent
    return Source(folder, str(read_config(folder).get("model_type")), foreign_files(file), Kind.FOREIGN)


def _export_files(folder: Path) -> tuple[Path, ...]:
    """Graphs and weights of an export, in order of their names."""
    files = tuple(folder / name for name in sorted((ANALYSIS, FAST, WEIGHTS)))
    for path in files:
        if not path.is_file():
            raise _unreadable(folder, f"{path} does not exist; the export is not whole, make it again")
    return files


def _architecture(path: Path, config: dict[str, Any]) -> str:
    """The model_type of a config, if it is one that can be hosted."""
    kind = config.get("model_type")
    if not isinstance(kind, str) or kind not in ARCHITECTURES:
        known = ", ".join(sorted(ARCHITECTURES))
        message = f"{path} says model_type {kind!r}; bertscope hosts {known}"
        raise FailedPrecondition(message, "ARCHITECTURE_UNSUPPORTED", model_type=kind, source=path.parent)
    if config.get("is_decoder"):
        message = f"{path} says is_decoder: true; bertscope hosts encoders"
        raise FailedPrecondition(message, "ARCHITECTURE_UNSUPPORTED", source=path.parent)
    if config.get("position_embedding_type", "absolute") != "absolute":
        # transformers 5 reads such a checkpoint and leaves its relative positions out.
        message = (
            f"{path} says position_embedding_type {config['position_embedding_type']!r}; only absolute positions can be hosted"
        )
        raise FailedPrecondition(message, "ARCHITECTURE_UNSUPPORTED", source=path.parent)
    return kind


def read_config(folder: Path) -> dict[str, Any]:
    """The config.json of a model's folder. Raises FailedPrecondition."""
    path = folder / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise _unreadable(folder, f"{path} does not exist; a model is a folder with config.json and *.safetensors") from None
    except (OSError, ValueError, RecursionError) as error:
        raise _unreadable(folder, f"{path} can't be read: {error}") from error
    if not isinstance(config, dict):
        raise _unreadable(folder, f"{path} is not a JSON object")
    return config


def _weight_files(folder: Path) -> tuple[Path, ...]:
    """model.safetensors, or the shards that its index names."""
    single, index = folder / "model.safetensors", folder / "model.safetensors.index.json"
    if single.is_file():
        return (single,)
    if index.is_file():
        try:
            names = sorted({str(name) for name in json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()})
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise _unreadable(folder, f"{index} can't be read: {error!r}") from error
        shards = tuple(folder / name for name in names)
        for shard in shards:
            if shard.parent != folder:
                raise _unreadable(folder, f"{index} names {str(shard)!r}, which does not lie beside it")
            if not shard.is_file():
                raise _unreadable(folder, f"{shard} is named in {index.name} and does not exist")
        return shards
    if any(path for pattern in PICKLES for path in folder.glob(pattern)):
        message = f"{folder} holds only pickled weights, which can run code; convert them to model.safetensors"
        raise FailedPrecondition(message, "PICKLE_REFUSED", source=folder)
    raise _unreadable(folder, f"{single} does not exist; bertscope reads safetensors only")


def _download(repository: str, revision: str, report: Report) -> Path:
    class Bar(hub_tqdm):  # type: ignore[misc]
        """Passes the hub's progress on, instead of drawing it; what `report` raises ends the download."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            kwargs["disable"] = True
            self.counts_bytes = kwargs.get("unit") == "B"
            self.done = int(kwargs.get("initial") or 0)
            super().__init__(*args, **kwargs)

        def update(self, n: float | None = 1) -> None:
            self.done += int(n or 0)
            if self.counts_bytes:
                report(Progress(Stage.DOWNLOADING, self.done, int(self.total or 0), repository))

    where = f"{repository}@{revision}" if revision else repository
    try:
        folder = huggingface_hub.snapshot_download(
            repository, revision=revision or None, allow_patterns=list(HUB_FILES), ignore_patterns=["*/*"], tqdm_class=Bar
        )
    except hub.GatedRepoError as error:
        raise _unreadable(repository, f"{where} is gated: accept its terms on the hub and give the server a token") from error
    except hub.RepositoryNotFoundError as error:
        raise _unreadable(repository, f"the hub has no model {repository}, or it is private; check the name") from error
    except hub.RevisionNotFoundError as error:
        raise _unreadable(repository, f"the hub has no revision {revision!r} of {repository}") from error
    except (hub.OfflineModeIsEnabled, hub.LocalEntryNotFoundError) as error:
        why = (
            "the server is offline (HF_HUB_OFFLINE)" if huggingface_hub.constants.HF_HUB_OFFLINE else "the hub can't be reached"
        )
        message = f"{where} is not in the server's cache and {why}; give a folder, or download it first"
        raise Unavailable(message, "HUB_UNREACHABLE", source=repository) from error
    except (LoadAbandonedError, MemoryError):
        raise
    except OSError as error:
        if not isinstance(error, (hub.HfHubHTTPError, ConnectionError, TimeoutError)):
            raise _unreadable(repository, f"storing {where} failed: {error}") from error
        raise _interrupted(where, error) from error
    except Exception as error:
        # The hub's library lets errors of its HTTP and transfer libraries through, which share no class.
        raise _interrupted(where, error) from error
    return Path(folder)


def _interrupted(where: str, error: Exception) -> Unavailable:
    message = f"downloading {where} from the hub failed ({type(error).__name__}); try again"
    return Unavailable(message, "HUB_UNREACHABLE", source=where)


def _unreadable(source: object, message: str) -> FailedPrecondition:
    return FailedPrecondition(message, "SOURCE_UNREADABLE", source=source)
