"""Which models are loaded."""

from __future__ import annotations

import asyncio
import shutil
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property, partial
from importlib.metadata import version
from pathlib import Path
from typing import TypeVar

import torch
from bertscope import __version__

from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.torch_pruning import union
from bertscope_service.errors import AlreadyExists, FailedPrecondition, InvalidArgument, NotFound, Unsupported
from bertscope_service.metrics import Metrics
from bertscope_service.sources import LoadAbandonedError, Progress, Report, Stage
from bertscope_service.tokenization import TextTokenizer

T = TypeVar("T")
LIBRARIES = ("tokenizers", "torch", "transformers")
"""Libraries that shape the numbers; their versions and ours are part of every reply's provenance."""


class ModelState(Enum):
    """Where a model is in its life."""

    LOADING = "loading"
    READY = "ready"
    UNLOADING = "unloading"


@dataclass(frozen=True, slots=True)
class Pruning:
    """How a pruned model is made: the source it is cut from, whose weights have this digest, and all heads that are removed.

    `folder` is where it is saved; None if it is not, then it can be made again from this alone.
    """

    source: str
    revision: str
    digest: str
    heads: Mapping[int, tuple[int, ...]]
    folder: Path | None


@dataclass(frozen=True, slots=True)
class LoadSpec:
    """What to load: `id` and source, where to run it ("auto", "cpu", "cuda:N"), and in which number format.

    With `pruning` the model is made first; `source` then says where it is saved, or in words what it was made from.
    """

    id: str
    source: str
    device: str
    precision: str
    revision: str = ""
    pruning: Pruning | None = None

    @property
    def name(self) -> str:
        return f"models/{self.id}"


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """All that answering takes."""

    spec: LoadSpec
    encoder: Encoder
    tokenizer: TextTokenizer
    weights_digest: str
    weight_bytes: int

    @property
    def name(self) -> str:
        return self.spec.name

    @cached_property
    def library_versions(self) -> dict[str, str]:
        return {"bertscope": __version__, **{library: version(library) for library in LIBRARIES}}


@dataclass(slots=True, eq=False)
class Entry:
    """A model at any point of its life; `loaded` is None while it loads, `ready_time` (seconds since 1970) 0.

    `users` counts the calls that run on it.
    """

    spec: LoadSpec
    state: ModelState = ModelState.LOADING
    loaded: LoadedModel | None = None
    ready_time: float = 0.0
    users: int = 0
    idle: asyncio.Event = field(default_factory=asyncio.Event)


class Registry:
    """The models of a server, in the order they were loaded; the first one answers requests that name none.

    Belongs to the event loop; reading a model happens in a thread.
    """

    def __init__(
        self,
        metrics: Metrics,
        read: Callable[[LoadSpec, Report], LoadedModel],
        warm_up: Callable[[LoadedModel], Awaitable[None]],
    ) -> None:
        """`read` reads a model from its source, in a thread; `warm_up` runs it a first time."""
        self._entries: dict[str, Entry] = {}
        self._metrics = metrics
        self._read = read
        self._warm_up = warm_up

    def entries(self) -> list[Entry]:
        """All models, the default one first."""
        return list(self._entries.values())

    def find(self, name: str) -> Entry:
        """A model by its resource name; "" is the default one, the first that is not being unloaded. Raises NotFound."""
        if not name:
            staying = [entry for entry in self._entries.values() if entry.state is not ModelState.UNLOADING]
            if not staying:
                raise NotFound("no model is loaded; load one first", "MODEL_NOT_FOUND")
            return staying[0]
        entry = self._entries.get(name)
        if entry is None:
            loaded = ", ".join(self._entries) or "none"
            raise NotFound(f"model {name!r} is not loaded; loaded: {loaded}", "MODEL_NOT_FOUND", model=name)
        return entry

    @contextmanager
    def use(self, name: str) -> Iterator[LoadedModel]:
        """Hold a ready model while a call runs on it. Raises NotFound, FailedPrecondition."""
        entry = self.find(name)
        if entry.state is ModelState.UNLOADING:
            raise NotFound(f"{entry.spec.name} is being unloaded; use another model", "MODEL_NOT_FOUND", model=entry.spec.name)
        if entry.loaded is None:
            message = f"{entry.spec.name} is {entry.state.value}; wait until it is ready, or use another model"
            raise FailedPrecondition(message, "MODEL_NOT_READY", model=entry.spec.name, state=entry.state.value)
        entry.users += 1
        try:
            yield entry.loaded
        finally:
            entry.users -= 1
            if not entry.users:
                entry.idle.set()

    async def load(self, spec: LoadSpec, report: Report) -> LoadedModel:
        """Read a model, warm it up and list it; `report` is called from the loading thread, and at last from the loop.

        Cancelling abandons the load. Raises AlreadyExists, InvalidArgument, FailedPrecondition, Unavailable.
        """
        if spec.name in self._entries:
            message = f"{spec.name} is taken; give the model another name, or unload that one first"
            raise AlreadyExists(message, "MODEL_EXISTS", model=spec.name)
        entry = self._entries[spec.name] = Entry(spec)
        self._count()
        abandoned = threading.Event()

        def report_unless_abandoned(progress: Progress) -> None:
            if abandoned.is_set():
                raise LoadAbandonedError
            report(progress)

        try:
            loaded = await _in_own_thread(partial(self._read, spec, report_unless_abandoned))
            report(Progress(Stage.WARMING_UP, detail="first run"))
            await self._first_run(loaded)
        except BaseException:
            abandoned.set()
            del self._entries[spec.name]
            self._count()
            raise
        entry.loaded, entry.state, entry.ready_time = loaded, ModelState.READY, time.time()
        self._count()
        self._metrics.model_weight_bytes.labels(spec.name).set(loaded.weight_bytes)
        return loaded

    async def _first_run(self, loaded: LoadedModel) -> None:
        """Warm a model up; one that was made for this load and can't run is not left on the disk."""
        try:
            await self._warm_up(loaded)
        except BaseException:
            made = loaded.spec.pruning
            if made is not None and made.folder is not None:
                await asyncio.shield(asyncio.to_thread(shutil.rmtree, made.folder, ignore_errors=True))
            raise

    async def prune(
        self, loaded: LoadedModel, model_id: str, heads: Mapping[int, tuple[int, ...]], folder: Path | None, report: Report
    ) -> LoadedModel:
        """Cut heads out of a model's weights and list what is left as a new one, on the same device and in the same precision.

        `heads` exist; those that were removed before are ignored. The new model is saved in `folder`, which must be absolute
        and empty or missing; None does not save it. Cancelling abandons it. Raises what `load` raises, and Unsupported for a
        model whose heads can't be removed, InvalidArgument or AlreadyExists for the folder, FailedPrecondition for a source
        that has changed or a folder that can't be written.
        """
        spec, shape = loaded.spec, loaded.encoder.shape
        if not shape.prunable:
            message = (
                f"heads of {loaded.name} can't be removed: layers of {shape.architecture} models share their weights, or "
                f"{loaded.encoder.runtime} can't change them; use interventions instead"
            )
            raise Unsupported(message, "PRUNING_UNSUPPORTED", model=loaded.name)
        if folder is not None and not folder.is_absolute():
            message = f"folder {str(folder)!r} is relative; write an absolute path on the server"
            raise InvalidArgument("folder", message, "RELATIVE_FOLDER")
        made = spec.pruning
        if made is None or made.folder is not None:
            pruning = Pruning(spec.source, spec.revision, loaded.weights_digest, heads, folder)
        else:
            pruning = replace(made, heads=union(made.heads, heads), folder=folder)
        source = f"{loaded.name}, pruned" if folder is None else str(folder)
        device, precision = str(loaded.encoder.device), loaded.encoder.precision
        return await self.load(LoadSpec(model_id, source, device, precision, pruning=pruning), report)

    async def unload(self, name: str) -> None:
        """Take no new calls for a model, wait for those that run, give its memory back. Raises NotFound, FailedPrecondition."""
        entry = self.find(name)
        if entry.state is not ModelState.READY:
            what = (
                "is already being unloaded"
                if entry.state is ModelState.UNLOADING
                else "is still loading; wait until it is ready"
            )
            message = f"{name} {what}"
            raise FailedPrecondition(message, "MODEL_NOT_READY", model=name, state=entry.state.value)
        entry.state = ModelState.UNLOADING
        self._count()
        try:
            while entry.users:
                entry.idle.clear()
                await entry.idle.wait()
        except asyncio.CancelledError:
            entry.state = ModelState.READY
            self._count()
            raise
        del self._entries[name]
        entry.loaded = None
        self._count()
        self._metrics.model_weight_bytes.remove(name)
        if torch.cuda.is_initialized():
            # Waits for what runs on the device, so not on the loop.
            await asyncio.to_thread(torch.cuda.empty_cache)

    def _count(self) -> None:
        for state in ModelState:
            self._metrics.models.labels(state.value).set(sum(entry.state is state for entry in self._entries.values()))


async def _in_own_thread(work: Callable[[], T]) -> T:
    """Run something in a thread that ends with it.

    OpenMP keeps a team of threads for every thread that ever used PyTorch, and as soon as there are more of them than cores,
    all of them sleep where they would spin: a batch takes up to twice as long. A thread's team ends with the thread.
    """
    executor = ThreadPoolExecutor(1, thread_name_prefix="bertscope-load")
    try:
        return await asyncio.get_running_loop().run_in_executor(executor, work)
    finally:
        executor.shutdown(wait=False)
