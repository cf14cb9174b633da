"""The choices of a library by runtime "auto", and their storage."""

from __future__ import annotations

import hashlib
import json
import logging
import math
import secrets
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from bertscope import __version__

from bertscope_service.encoders.onnx.sessions import onnxruntime_version
from bertscope_service.observability.machine import processor

FORMAT = 1
"""Version of the stored choices; raised whenever older ones must not be used."""

FOLDER = "runtimes"
"""The folder of the choices in the cache folder, one file each."""

RUNTIMES = ("torch", "onnx")

MAX_CHOICES = 1000
"""Maximum number of stored choices; the oldest are removed first."""

PREFERRED = {"cpu": "onnx", "cuda": "torch", "mps": "torch"}
"""The library for each kind of device, unless the other one is clearly faster.

On a CPU ONNX Runtime is faster for short texts and small models, and level on others; on a GPU PyTorch needs no second copy
for gradients.
"""

THRESHOLD = 1.1
"""Minimum speed of the other library relative to the preferred one, for the whole interval.

Many models run equally fast with both, and servers whose figures differ by noise alone must choose the same.
"""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RuntimeTimes:
    """Median times of one library, seconds: of one text, and of a batch."""

    runtime: str
    text_seconds: float
    batch_seconds: float


@dataclass(frozen=True, slots=True)
class RuntimeChoice:
    """The choice of a model's library and its measurements; see bertscope.v1.RuntimeChoice.

    `speedup` is the speed of the other library relative to the preferred one, `low` and `high` are its interval over `rounds`;
    `measured_time` is in seconds since 1970. Without times, `reason` says why nothing was measured.
    """

    runtime: str
    preferred: str
    threshold: float = THRESHOLD
    times: tuple[RuntimeTimes, ...] = ()
    speedup: float = 0.0
    low: float = 0.0
    high: float = 0.0
    rounds: int = 0
    measured_time: float = 0.0
    remembered: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ChoiceKey:
    """The conditions of a choice: digests of weights and configuration, device, number format, threads and ONNX
    Runtime's optimisation level.

    A choice also holds only for machines of this kind and for these versions.
    """

    digest: str
    config: str
    device: str
    precision: str
    threads: int
    optimisation: str

    @property
    def name(self) -> str:
        """The name of its file: the same on every machine of the same kind."""
        where = [*machine(self.device), self.threads or torch.get_num_threads()]
        versions = [__version__, onnxruntime_version(), *(version(name) for name in ("torch", "transformers"))]
        rule = [FORMAT, sorted(PREFERRED.items()), THRESHOLD]
        asked = [self.digest, self.config, self.device, self.precision, self.optimisation]
        content = json.dumps([*asked, where, versions, rule])
        return hashlib.sha256(content.encode()).hexdigest()[:32]


def machine(device: str) -> list[object]:
    """Returns the parts of this machine that decide a library's speed: processor, instructions, cores, and the GPU if one is
    used."""
    model, flags, cores = processor()
    gpu = torch.cuda.get_device_name(device) if device.startswith("cuda") else ""
    return [model, flags, cores, gpu]


class RuntimeChoices:
    """Choices by their conditions, in memory and in files of a cache folder. May be used from any thread.

    A file that can't be read or written is no error: the choice is made anew, or kept until the process ends.
    """

    def __init__(self, cache: Path) -> None:
        self._cache = cache
        self._kept: OrderedDict[str, RuntimeChoice] = OrderedDict()
        self._lock = threading.Lock()

    def recall(self, key: ChoiceKey) -> RuntimeChoice | None:
        """Returns the earlier choice of this or another server with this cache; None if there is none."""
        name = key.name
        with self._lock:
            choice = self._kept.get(name) or self._read(name)
        return None if choice is None else replace(choice, remembered=True)

    def remember(self, key: ChoiceKey, choice: RuntimeChoice) -> RuntimeChoice:
        """Stores a choice and returns it; or returns the one that another server with this cache has stored meanwhile."""
        name = key.name
        with self._lock:
            kept = self._kept.get(name) or self._read(name)
            if kept is not None:
                self._hold(name, kept)
                return replace(kept, remembered=True)
            self._hold(name, choice)
            self._write(name, choice)
        return choice

    def forget(self, key: ChoiceKey) -> None:
        """Removes a choice, so that the next load chooses anew."""
        name = key.name
        with self._lock:
            self._kept.pop(name, None)
            with suppress(OSError, RuntimeError):
                (self._folder / f"{name}.json").unlink()

    @property
    def _folder(self) -> Path:
        return self._cache.expanduser().absolute() / FOLDER

    def _hold(self, name: str, choice: RuntimeChoice) -> None:
        self._kept[name] = choice
        self._kept.move_to_end(name)
        while len(self._kept) > MAX_CHOICES:
            self._kept.popitem(last=False)

    def _read(self, name: str) -> RuntimeChoice | None:
        try:
            text = (self._folder / f"{name}.json").read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except (OSError, RuntimeError, ValueError) as error:
            logger.info("a stored choice of runtime can't be read; it is made anew: %s", error)
            return None
        try:
            choice = parse_choice(json.loads(text))
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            logger.warning("a stored choice of runtime is malformed; it is made anew: %r", error)
            with suppress(OSError):
                (self._folder / f"{name}.json").unlink()
            return None
        self._hold(name, choice)
        return choice

    def _write(self, name: str, choice: RuntimeChoice) -> None:
        try:
            folder = self._folder
            folder.mkdir(parents=True, exist_ok=True)
            unfinished = folder / f".draft-{secrets.token_hex(6)}"
            try:
                unfinished.write_text(json.dumps({"format": FORMAT, **asdict(choice)}, indent=1) + "\n", encoding="utf-8")
                unfinished.replace(folder / f"{name}.json")
            finally:
                unfinished.unlink(missing_ok=True)
            _limit(folder)
        except (OSError, RuntimeError) as error:
            logger.info("a choice of runtime can't be stored in the cache; this server keeps it until it stops: %s", error)


def parse_choice(content: Mapping[str, Any]) -> RuntimeChoice:
    """Converts a file's content. Raises KeyError, TypeError, ValueError for anything that was not stored as a choice."""
    times = tuple(
        RuntimeTimes(str(one["runtime"]), float(one["text_seconds"]), float(one["batch_seconds"])) for one in content["times"]
    )
    kinds = {"runtime": str, "preferred": str, "rounds": int}
    kinds |= dict.fromkeys(("threshold", "speedup", "low", "high", "measured_time"), float)
    choice = RuntimeChoice(times=times, **{name: kind(content[name]) for name, kind in kinds.items()})
    numbers = (choice.speedup, choice.low, choice.high, choice.threshold, choice.measured_time)
    if content["format"] != FORMAT or {one.runtime for one in times} != set(RUNTIMES):
        raise ValueError("it has another format")
    if not all(math.isfinite(number) and number > 0 for number in numbers) or choice.rounds < 1:
        raise ValueError("its numbers are out of range")
    if choice.preferred not in RUNTIMES or choice.runtime != decide(choice.preferred, choice.low, choice.threshold):
        raise ValueError("its numbers favour the other library")
    return choice


def decide(preferred: str, low: float, threshold: float = THRESHOLD) -> str:
    """Returns the library that serves: the preferred one, unless the other is clearly faster.

    `low` is the lower end of the interval of the other one's relative speed.
    """
    return preferred if low <= threshold else next(runtime for runtime in RUNTIMES if runtime != preferred)


def only(runtime: str, device: torch.device, reason: str) -> RuntimeChoice:
    """Returns the choice of a model that only one library can run."""
    return RuntimeChoice(runtime, PREFERRED[device.type], reason=reason)


def _limit(folder: Path) -> None:
    """Removes the oldest files beyond the limit, unfinished files of killed servers among them."""
    files: Sequence[Path] = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime)
    for path in files[: max(0, len(files) - MAX_CHOICES)]:
        with suppress(OSError):
            path.unlink()
