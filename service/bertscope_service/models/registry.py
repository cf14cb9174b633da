"""The models that a server has loaded."""

from __future__ import annotations

import asyncio
import shutil
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bertscope_service.checkpoints.atomic_folder import check_writable
from bertscope_service.checkpoints.confinement import ANYWHERE, Confinement
from bertscope_service.checkpoints.sources import Progress, Stage
from bertscope_service.checkpoints.steps import Heads, RemoveHeads, Step, StepProgress
from bertscope_service.compression.plan import check_texts, plan, with_heads
from bertscope_service.errors import AlreadyExists, InvalidArgument, LoadAbandonedError, NotFound
from bertscope_service.models.hosted import HostedModel, ModelState
from bertscope_service.models.loaded import Derivation, LoadedModel, LoadSpec
from bertscope_service.models.memory import forget_locals
from bertscope_service.models.own_thread import in_own_thread
from bertscope_service.models.runtimes import RuntimeRequest, gradient_encoder
from bertscope_service.observability.call_notes import note_model
from bertscope_service.observability.metrics import Metrics

UNLOAD, REPLACE = "unload that one first", "set replace to put it in that one's place"
"""Remedies for a name that is taken."""

Report = Callable[[Progress | StepProgress], None]
"""Receives progress from the loading thread: steps while a model is made, else stages. May raise, which abandons the load."""


class Registry:
    """The models of a server, in the order they were listed; the first one answers requests that name none.

    Belongs to the event loop; a thread reads models.
    """

    def __init__(
        self,
        metrics: Metrics,
        read: Callable[[LoadSpec, Report], LoadedModel],
        warm_up: Callable[[LoadedModel], Awaitable[LoadedModel]],
    ) -> None:
        """Keeps the callbacks. `read` reads a model in a thread; `warm_up` runs it for the first time and chooses between
        alternatives."""
        self._entries: dict[str, HostedModel] = {}
        self._retired: dict[HostedModel, asyncio.Task[None]] = {}
        self._metrics = metrics
        self._read = read
        self._warm_up = warm_up

    def expect(self, specs: Iterable[LoadSpec]) -> None:
        """Lists the models that the server begins with as loading; `load` of the same specifications loads them.

        Until then callers hear that the server starts, and not that there is no such model: gRPC's clients then call another
        server. Raises AlreadyExists for two of one name.
        """
        for spec in specs:
            if spec.name in self._entries:
                raise _taken(spec.name, "leave one out of the two --model")
            self._entries[spec.name] = HostedModel(spec, awaited=True)
        self._count()

    def entries(self) -> list[HostedModel]:
        """Returns all models, the default one first."""
        return list(self._entries.values())

    def find(self, name: str) -> HostedModel:
        """Returns a model by its resource name; "" is the default, the first that is not being unloaded. Raises NotFound."""
        if not name:
            staying = [entry for entry in self._entries.values() if entry.state is not ModelState.UNLOADING]
            if not staying:
                raise NotFound("no model is loaded; load one first", "MODEL_NOT_FOUND")
            note_model(staying[0].spec.name)
            return staying[0]
        entry = self._entries.get(name)
        if entry is None:
            loaded = ", ".join(self._entries) or "none"
            raise NotFound(f"model {name!r} is not loaded; loaded: {loaded}", "MODEL_NOT_FOUND", model=name)
        note_model(name)
        return entry

    def require_free(self, name: str) -> None:
        """Raises AlreadyExists for the resource name of a model."""
        if name in self._entries:
            raise _taken(name, UNLOAD)

    @contextmanager
    def use(self, name: str) -> Iterator[LoadedModel]:
        """Holds a ready model while a call runs on it. Raises NotFound, FailedPrecondition, Unavailable."""
        with self.find(name).use() as loaded:
            self._metrics.model_calls.labels(loaded.name).inc()
            yield loaded

    async def load(self, spec: LoadSpec, report: Report, *, replacing: bool = False) -> LoadedModel:
        """Reads a model, warms it up and lists it; `report` is called from the loading thread, and at last from the loop.

        With `replacing`, a model of the same name answers until the new one takes its name and its place in the order; its
        calls finish on it, then its memory is freed. Cancelling or a failure abandons the load and leaves the old model as it
        was. Raises AlreadyExists, InvalidArgument, FailedPrecondition, Unavailable.
        """
        note_model(spec.name)
        entry, old = HostedModel(spec), self._entries.get(spec.name)
        if old is not None and old.awaited and old.spec is spec:
            entry, old = old, None
        if old is not None:
            if not replacing:
                raise _taken(spec.name, UNLOAD if spec.derivation else REPLACE)
            old.require_settled()
        if old is None:
            self._entries[spec.name] = entry
        else:
            old.successor = entry
        self._count()
        try:
            with self._metrics.timed_load():
                loaded = await self._prepare(spec, report)
        except BaseException as error:
            if old is None:
                del self._entries[spec.name]
            else:
                old.successor = None
            self._count()
            # A reference to the error must not keep the model in memory.
            forget_locals(error)
            raise
        entry.loaded, entry.state, entry.ready_time = loaded, ModelState.READY, time.time()
        # The same key keeps the order. The assignment is atomic: each call gets the old model or the new one.
        self._entries[spec.name] = entry
        if old is not None:
            self._retire(old)
        self._count()
        self._metrics.model_weight_bytes.labels(spec.name).set(loaded.weight_bytes)
        self._metrics.model_calls.labels(spec.name)  # exported from 0 on
        return loaded

    async def _prepare(self, spec: LoadSpec, report: Report) -> LoadedModel:
        """Reads a model and warms it up; cancelling abandons the reading."""
        abandoned = threading.Event()

        def report_unless_abandoned(progress: Progress | StepProgress) -> None:
            if abandoned.is_set():
                raise LoadAbandonedError
            report(progress)

        try:
            loaded = await in_own_thread(partial(self._read, spec, report_unless_abandoned))
            if spec.derivation is None:
                report(Progress(Stage.WARMING_UP, detail="first run"))
            return await self._first_run(loaded)
        except BaseException:
            abandoned.set()
            raise

    async def _first_run(self, loaded: LoadedModel) -> LoadedModel:
        """Warms a model up; deletes the folder of a model that was made for this load and can't run."""
        try:
            return await self._warm_up(loaded)
        except BaseException:
            made = loaded.spec.derivation
            if made is not None and made.folder is not None:
                await asyncio.shield(asyncio.to_thread(shutil.rmtree, made.folder, ignore_errors=True))
            raise

    async def with_gradients(self, loaded: LoadedModel) -> LoadedModel:
        """Returns the same model with a library that has gradients: itself, or read once more from its checkpoint.

        The second reading is kept as long as the model is loaded. Raises FailedPrecondition for a checkpoint that is gone or
        has changed.
        """
        # Searched by identity, because another model may have taken its name meanwhile.
        entry = next((entry for entry in self._held() if entry.loaded is loaded), None)
        source = loaded.source
        if loaded.encoder.runtime == "torch" or entry is None or source is None:
            return loaded
        if entry.gradients is None or (entry.gradients.done() and (entry.gradients.cancelled() or entry.gradients.exception())):
            asked = RuntimeRequest("torch", loaded.encoder.precision, loaded.encoder.device)

            async def read() -> LoadedModel:
                return replace(
                    loaded, encoder=await in_own_thread(partial(gradient_encoder, source, loaded.weights_digest, asked))
                )

            entry.gradients = asyncio.create_task(read())
        # Shielded, because other calls may wait for the same reading.
        return await asyncio.shield(entry.gradients)

    async def prune(self, loaded: LoadedModel, model_id: str, heads: Heads, folder: Path | None, report: Report) -> LoadedModel:
        """Removes heads from a model's weights and lists the result as a new model; see `compress`.

        `heads` exist; those that were removed before are ignored.
        """
        return await self.compress(loaded, model_id, (RemoveHeads(heads),), folder, report, word="pruned")

    async def compress(
        self,
        loaded: LoadedModel,
        model_id: str,
        steps: Sequence[Step],
        folder: Path | None,
        report: Report,
        *,
        rank: Callable[[RemoveHeads, str], Awaitable[NDArray[np.float64]]] | None = None,
        word: str = "compressed",
    ) -> LoadedModel:
        """Applies steps to a model's checkpoint and lists the result as a new model, on the same device and in the same
        precision.

        `rank` gives the importance of the heads [layers, heads] for a step that removes a share of them; its second argument
        is the step's field in the request. The new model is saved in `folder`, which must be absolute and empty or missing;
        None does not save it. Cancelling abandons it. Raises what `load` and `plan` raise, InvalidArgument or AlreadyExists
        for the folder, FailedPrecondition for a source that has changed, a folder that can't be written or a full disk.
        """
        spec = loaded.spec
        planned = plan(steps, loaded.subject)
        if folder is not None and not folder.is_absolute():
            message = f"folder {str(folder)!r} is relative; write an absolute path on the server"
            raise InvalidArgument("folder", message, "RELATIVE_FOLDER")
        made = spec.derivation
        if made is None or made.folder is not None:
            made = Derivation(spec.source, spec.revision, loaded.weights_digest, (), folder, spec.confinement)
        new = LoadSpec(
            model_id,
            f"{loaded.name}, {word}" if folder is None else str(folder),
            str(loaded.encoder.device),
            planned.precision_after(loaded.encoder.precision),
            runtime=planned.runtime or spec.runtime,
            # Folders written here contain no links.
            confinement=ANYWHERE if folder is None else Confinement((folder,)),
        )
        self.require_free(new.name)
        if any(getattr(step, "texts", ()) for step in planned.steps):
            await asyncio.to_thread(check_texts, planned.steps, loaded.tokenizer)
        chosen = planned.steps
        for index, step in enumerate(chosen):
            if isinstance(step, RemoveHeads) and step.share is not None:
                if rank is None:
                    raise ValueError("a share of heads needs a ranking")
                if folder is not None:
                    await asyncio.to_thread(check_writable, folder)
                report(StepProgress(0, len(made.steps) + len(chosen) + 1, "ranking heads"))
                chosen = with_heads(chosen, await rank(step, f"steps[{index}].{step.name}.texts"), loaded.subject)
        new = replace(new, derivation=replace(made, steps=(*made.steps, *chosen), folder=folder))
        return await self.load(new, report)

    async def unload(self, name: str) -> None:
        """Rejects new calls of a model, waits for running ones, frees its memory. Raises NotFound, FailedPrecondition."""
        entry = self.find(name)
        entry.require_settled()
        entry.state = ModelState.UNLOADING
        self._count()
        try:
            await entry.drained()
        except asyncio.CancelledError:
            entry.state = ModelState.READY
            self._count()
            raise
        del self._entries[name]
        self._count()
        self._metrics.model_weight_bytes.remove(name)
        self._metrics.model_calls.remove(name)
        await entry.free()

    def _retire(self, entry: HostedModel) -> None:
        """Waits for the calls of a model that was replaced, then frees its memory."""
        entry.state, entry.successor = ModelState.UNLOADING, None

        async def release() -> None:
            await entry.drained()
            await entry.free()
            del self._retired[entry]
            self._count()

        self._retired[entry] = asyncio.create_task(release())

    def _held(self) -> Iterator[HostedModel]:
        """Yields all models that take memory: named ones, replaced ones, and successors."""
        for entry in (*self._entries.values(), *self._retired):
            yield entry
            if entry.successor is not None:
                yield entry.successor

    def _count(self) -> None:
        for state in ModelState:
            self._metrics.models.labels(state.value).set(sum(entry.state is state for entry in self._held()))


def _taken(name: str, remedy: str) -> AlreadyExists:
    message = f"{name} is taken; give the model another name, or {remedy}"
    return AlreadyExists(message, "MODEL_EXISTS", model=name)
