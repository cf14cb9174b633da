"""The DistillationService: trains smaller models."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import cast

from bertscope.v1 import distillation_pb2 as pb2
from bertscope.v1 import distillation_pb2_grpc, model_pb2

from bertscope_service.api.answer import Backend, Call, Context
from bertscope_service.api.distillation_replies import (
    card_row,
    describe,
    render_progress,
    render_report,
    share_in_words,
)
from bertscope_service.api.distillation_requests import PlannedDistillation, plan_distillation
from bertscope_service.api.model_rendering import render_model
from bertscope_service.api.progress import progress_of
from bertscope_service.checkpoints.atomic_folder import check_vacant
from bertscope_service.checkpoints.confinement import Confinement
from bertscope_service.checkpoints.steps import Applied
from bertscope_service.checkpoints.temporary_folder import TemporaryFolder
from bertscope_service.distillation.card import NAME, model_card
from bertscope_service.distillation.checkpoints import Student
from bertscope_service.distillation.run import Distillation, DistillationProgress, Distilled
from bertscope_service.distillation.size import training_bytes
from bertscope_service.encoders.torch.encoder import TorchEncoder
from bertscope_service.encoders.torch.loading import load_encoder
from bertscope_service.errors import AlreadyExists, FailedPrecondition, InvalidArgument, LoadAbandonedError
from bertscope_service.models.loaded import LoadSpec
from bertscope_service.models.own_thread import in_own_thread
from bertscope_service.probing.states import StateSpace

Request = pb2.DistillModelRequest
Response = pb2.DistillModelResponse
Report = Callable[[DistillationProgress], None]


class DistillationServicer(distillation_pb2_grpc.DistillationServiceServicer):
    """Serves DistillationService: trains smaller models."""

    def __init__(self, backend: Backend, space: StateSpace) -> None:
        self._backend = backend
        self._space = space
        self._folders: set[Path] = set()

    async def DistillModel(self, request: Request, context: Context) -> AsyncIterator[Response]:
        backend = self._backend
        with backend.registry.use(request.model) as model:
            call = Call.of(backend, model, context)
            planned, _ = await call.read(request, plan_distillation)
            for folder in (planned.folder, planned.saved.folder):
                await asyncio.to_thread(backend.policy.check_folder, folder)
            await asyncio.to_thread(check_vacant, planned.folder)
            backend.registry.require_free(planned.name)
            if planned.folder in self._folders:
                message = f"another call trains a model for {planned.folder} now; name another folder"
                raise AlreadyExists(message, "FOLDER_NOT_EMPTY", folder=planned.folder)
            # A model that runs in ONNX is read once more, with gradients.
            teacher = cast("TorchEncoder", (await backend.registry.with_gradients(model)).encoder)
            needed = training_bytes(teacher, planned.longest, planned.settings.batch_tokens)
            if needed > self._space.memory_bytes:
                message = f"training this model takes {needed} bytes and the server allows {self._space.memory_bytes} for it"
                remedy = "use a smaller model, or a server with more (probe_memory_bytes)"
                raise InvalidArgument("model", f"{message}; {remedy}", "MEMORY_TOO_SMALL", needed=needed)
            self._folders.add(planned.folder)
            try:
                with self._space.hold(0, needed, needed):
                    job = _Job(call, planned, teacher)
                    # Closed explicitly: the work of a client that is gone must not go on until garbage collection.
                    async with aclosing(progress_of(job.run, lambda progress: progress.stage)) as reports:
                        async for progress in reports:
                            yield Response(progress=render_progress(progress))
                    yield Response(report=await call.compute(partial(render_report, planned, job.distilled, model)))
                    yield Response(model=job.loaded)
            finally:
                self._folders.discard(planned.folder)


class _Job:
    """The work of one call: the student is made, trained, saved and loaded."""

    def __init__(self, call: Call, planned: PlannedDistillation, teacher: TorchEncoder) -> None:
        self._call, self._planned, self._teacher = call, planned, teacher
        self._abandoned = threading.Event()
        self.distilled: Distilled
        self.loaded: model_pb2.Model

    async def run(self, report: Report) -> None:
        model, planned = self._call.model, self._planned
        if model.source is None:
            message = f"{model.name} was not saved, so that no student can be made of it; compress it again, with a folder"
            raise FailedPrecondition(message, "TRAINING_NOT_SAVED", model=model.name)
        temporary = TemporaryFolder()
        student = Student(model.source, model.weights_digest, planned.steps, temporary.folder)
        try:
            report(DistillationProgress("preparing"))
            folder = await in_own_thread(partial(student.make, self._check))
            reading = partial(load_encoder, folder, self._teacher.shape.architecture, precision="fp32", pack=False)
            encoder = await in_own_thread(partial(reading, device=self._teacher.device))
            bulk = self._call.bulk(self._teacher)
            stored = await in_own_thread(student.stored)
            work = Distillation(self._teacher, encoder, planned.texts, planned.settings, bulk, planned.saved, report, stored)
            self.distilled = await work.run()
            report(DistillationProgress("saving"))
            applied = describe(planned, self.distilled, model.name)
            written = encoder.architecture.model, self.distilled.weights, applied, planned.folder
            await in_own_thread(partial(student.write, *written, self._check, self._documents))
            await asyncio.to_thread(planned.saved.remove)
            await self._load(report)
        except BaseException:
            self._abandoned.set()
            raise
        finally:
            # A thread that was abandoned may still write there; what it leaves behind, the next server removes.
            await asyncio.to_thread(temporary.remove)

    def _check(self, _: object) -> None:
        if self._abandoned.is_set():
            raise LoadAbandonedError

    def _documents(self, steps: Sequence[Applied]) -> dict[str, str]:
        planned, distilled = self._planned, self.distilled
        named = {"teacher": distilled.teacher, "untrained student": distilled.untrained, "this model": distilled.student}
        rows = [card_row(name, scores) for name, scores in named.items()]
        shares = {one.metric.value: share_in_words(one) for one in distilled.recoveries}
        texts = {name: len(part.examples) for name, part in planned.texts.parts.items()}
        return {NAME: model_card(self._call.model.name, steps, planned.settings, rows, shares, texts)}

    async def _load(self, report: Report) -> None:
        planned, registry = self._planned, self._call.backend.registry
        spec = LoadSpec(
            planned.name.removeprefix("models/"),
            str(planned.folder),
            str(self._teacher.device),
            planned.precision,
            runtime=planned.runtime,
            # Folders written here contain no links.
            confinement=Confinement((planned.folder,)),
        )
        await registry.load(spec, lambda _: report(DistillationProgress("saving")))
        self.loaded = render_model(registry.find(planned.name))
