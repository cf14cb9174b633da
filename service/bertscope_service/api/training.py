"""The path of every rpc that trains on hidden states: plan, reserve room, train behind everybody's interactive rows, render.

Each rpc supplies what it trains (`bertscope_service.probing.skeleton.Training`) from its request, and renders what was found.
"""

from __future__ import annotations

import math
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any

from bertscope.v1 import representation_probes_pb2 as probes_pb2

from bertscope_service.api.answer import Backend, Call, Context
from bertscope_service.api.checks import read_memory_bytes
from bertscope_service.api.limits import RequestLimits
from bertscope_service.api.progress import progress_of
from bertscope_service.api.provenance import render_provenance
from bertscope_service.errors import InvalidArgument
from bertscope_service.models.loaded import LoadedModel
from bertscope_service.probing.skeleton import TRAINING, AnyTraining, Progress, Report
from bertscope_service.probing.states import StateSpace

STAGES = {True: probes_pb2.ProbeProgress.STAGE_TRAINING, False: probes_pb2.ProbeProgress.STAGE_STATES}


@dataclass(frozen=True, slots=True)
class TrainingRpc:
    """Holds what an rpc says of itself.

    response: its message, an event of progress, report, or what was trained. plan: checks a request and returns its training;
    raises InvalidArgument, and Unsupported for a model without a required capability. render: makes the responses from the
    training and what it found, all but the common fields of the report. best: the field of its progress that says what training
    has reached. gradients: it needs them.
    """

    response: Callable[..., Any]
    plan: Callable[[Any, LoadedModel], AnyTraining]
    render: Callable[[Any, Any], Iterator[Any]]
    best: str = ""
    gradients: bool = False


async def train(
    rpc: TrainingRpc, request: Any, backend: Backend, context: Context, space: StateSpace
) -> AsyncGenerator[Any, None]:
    """Answers a request. Raises InvalidArgument, Unsupported, Overloaded, FailedPrecondition."""
    with backend.registry.use(request.model) as model:

        def plan(request: Any, model: LoadedModel, limits: RequestLimits) -> tuple[AnyTraining, int]:
            most = read_memory_bytes(request, space.memory_bytes)
            return rpc.plan(request, model), most

        call = Call.of(backend, model, context)
        (training, most), conditions = await call.read(request, plan)
        if rpc.gradients:
            # A model that runs in ONNX is read once more, with gradients.
            call = Call.of(backend, await backend.registry.with_gradients(model), context)
        encoder = call.model.encoder
        needed = await call.compute(partial(training.needed_bytes, encoder))
        with space.hold(4 * math.prod(training.shape(encoder)), needed, most) as on_disk:
            edits, began = await call.edits_with(conditions), time.monotonic()
            found: list[Any] = []

            async def work(report: Report) -> None:
                found.append(await training.run(encoder, call.bulk(), edits, report, on_disk=on_disk))
                found.append(time.monotonic() - began)

            # Closed explicitly: the work of a client that is gone must not go on until garbage collection.
            async with aclosing(progress_of(work, attrgetter("stage"))) as reports:
                async for progress in reports:
                    yield _progress(rpc, progress)
            trained, seconds = found
            replies = rpc.render(training, trained)
            while (reply := await call.compute(partial(next, replies, None))) is not None:
                if reply.HasField("report"):
                    reply.report.hidden_size = encoder.shape.hidden_size
                    reply.report.on_disk, reply.report.seconds = on_disk, seconds
                    reply.report.provenance.CopyFrom(render_provenance(call.model))
                yield reply


def _progress(rpc: TrainingRpc, progress: Progress) -> Any:
    stage = STAGES[progress.stage == TRAINING]
    best = {rpc.best: progress.best} if rpc.best else {}
    return rpc.response(progress={"stage": stage, "done": progress.done, "total": progress.total, **best})


def check_total(parts: Mapping[str, Sequence[Any]], what: str, count: int, most: int) -> None:
    """Checks how many texts, spans or words all parts of a request have together. Raises InvalidArgument."""
    if count > most:
        *first, last = parts
        message = f"{', '.join(first)} and {last} have {count} {what} together and one call takes {most}; leave some out"
        raise InvalidArgument("train", message, "TOO_MANY_TEXTS" if what == "texts" else "TOO_MANY_SPANS", limit=most)
