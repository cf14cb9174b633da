"""The path of every request that queries a model: check, plan, run, render.

Each rpc supplies two pure functions: one checks the request and plans its rows, the other renders the reply from their
results. `answer` does the rest for rpcs with one reply. Streaming rpcs begin with `Call.prepare`; rpcs whose rows run behind
interactive ones begin with `Call.read`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, TypeVar

import grpc
import numpy as np
from google.protobuf.message import Message
from numpy.typing import NDArray

from bertscope_service.ablation.mean_contexts import mean_contexts
from bertscope_service.analyses.interventions import Interventions
from bertscope_service.analyses.rounds import Rounds
from bertscope_service.analyses.site_changes import PlannedChange
from bertscope_service.api.change_limits import check_count, check_places, codes_bytes
from bertscope_service.api.checks import check_tokens
from bertscope_service.api.field_checks import check_fields
from bertscope_service.api.interventions import check_reference_texts, read_interventions, read_references
from bertscope_service.api.limits import RequestLimits
from bertscope_service.api.read_ahead import ReadAhead
from bertscope_service.api.reply_memory import ReplyMemory
from bertscope_service.api.request_memory import RequestMemory, request_bytes
from bertscope_service.api.site_runs import site_changes
from bertscope_service.api.sites import SiteReader, source_models
from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.edits import Edits
from bertscope_service.encoders.observer import Observer
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.engine.bulk import AHEAD_BATCHES, BulkRunner
from bertscope_service.engine.engine import Engine
from bertscope_service.engine.rows import Priority, Row, deadline_after
from bertscope_service.models.loaded import LoadedModel
from bertscope_service.models.registry import Registry
from bertscope_service.security import callers
from bertscope_service.security.model_sources import SourcePolicy

INLINE_CHARACTERS = 4000
"""Requests with fewer characters are planned on the loop: waking a thread would take longer. A large request takes seconds.
Characters that a tokenizer makes longer count as what they become."""

INLINE_BYTES = 16 * 1024
"""Larger requests are always planned in a thread: also thousands of entries without a character take time."""

INLINE_REPLY_BYTES = 16 * 1024
"""Smaller replies are rendered on the loop."""

INLINE_ROWS = 64
"""The rows after a round of fewer are made on the loop."""

T = TypeVar("T")
RequestT = TypeVar("RequestT", bound=Message)
Context = grpc.aio.ServicerContext[Any, Any]


class Plan(Protocol):
    """The rows for a request, and the size of its reply."""

    @property
    def rows(self) -> Sequence[tuple[TokenSequence, Observer]]:
        """The sequences to run, each with its observer."""

    @property
    def reply_bytes(self) -> int:
        """Approximate size of the part of the reply that is in memory at a time, bytes."""


PlanT = TypeVar("PlanT", bound=Plan)
Read = Callable[[RequestT, LoadedModel, RequestLimits], T]
"""Checks a request and plans its answer; may run in a thread. Raises InvalidArgument, and Unsupported for a model without a
required capability."""


@dataclass(frozen=True, slots=True)
class Backend:
    """The parts of the server that rpcs use."""

    engine: Engine
    registry: Registry
    limits: RequestLimits
    policy: SourcePolicy
    reply_memory: ReplyMemory
    request_memory: RequestMemory
    read_ahead: ReadAhead = field(default_factory=ReadAhead)


@dataclass(frozen=True, slots=True)
class Conditions:
    """The contributions of heads during a request, the changes at other sites, and the texts for means (none if nothing needs
    them)."""

    interventions: Interventions
    references: Sequence[TokenSequence]
    changes: Sequence[PlannedChange] = ()


@dataclass(frozen=True, slots=True)
class Call:
    """A call that queries a model: its client, and its deadline (time.monotonic(); None if it has none)."""

    backend: Backend
    model: LoadedModel
    client: str
    deadline: float | None

    @classmethod
    def of(cls, backend: Backend, model: LoadedModel, context: Context) -> Call:
        return cls(backend, model, callers.current.get(), deadline_after(context.time_remaining()))

    async def prepare(
        self, request: RequestT, plan: Read[RequestT, PlanT], *, size: Callable[[RequestT], int] = request_bytes
    ) -> tuple[PlanT, Edits | None]:
        """Plans an interactive request. Returns the plan, and the gates of its interventions.

        `size`: number of characters to read of a request of at most INLINE_BYTES. Raises InvalidArgument, Unsupported, and
        Overloaded if other replies take up the memory for replies.
        """
        fields = request.DESCRIPTOR.fields_by_name
        field = next(name for name in ("texts", "input", "inputs") if name in fields or name == "inputs")

        def bounded(request: RequestT, model: LoadedModel, limits: RequestLimits) -> PlanT:
            planned = plan(request, model, limits)
            check_tokens((sequence for sequence, _ in planned.rows), field, limits)
            return planned

        # In this order: the sum of the characters of a million entries takes a tenth of a second.
        large = request_bytes(request) > INLINE_BYTES or size(request) * self.model.tokenizer.growth > INLINE_CHARACTERS
        planned, conditions = await self.read(request, bounded, large=large, priority=Priority.INTERACTIVE)
        if conditions.changes:
            check_places(conditions.changes, len(planned.rows))
        # Reserved before the run, because computing a large reply takes as much memory.
        self.backend.reply_memory.hold(self.client, planned.reply_bytes)
        return planned, await self.edits(conditions)

    async def read(
        self,
        request: Any,
        plan: Read[Any, T],
        *,
        large: bool = True,
        means: bool = False,
        priority: Priority = Priority.BULK,
    ) -> tuple[T, Conditions]:
        """Plans a request, in a thread if it is `large`. Returns the plan and the conditions of its run.

        `means`: the request needs reference texts whatever its interventions
        are. Raises Overloaded if other requests take up the memory for plans.
        """
        asked = getattr(request, "site_interventions", ())
        check_count(asked)
        if large:
            vectors = sum(codes_bytes(one.change) for one in asked)
            texts = (request_bytes(request) - vectors) * self.model.tokenizer.growth
            self.backend.request_memory.hold(self.client, texts, vectors)

        def work() -> tuple[T, Conditions]:
            check_fields(request, self.backend.limits)
            interventions = read_interventions(getattr(request, "interventions", ()), self.model)
            changes = SiteReader.of(self.model, self.backend.limits, models).read(asked) if asked else ()
            needed = means or interventions.needs_means or any(one.needs_references for one in changes)
            texts = getattr(request, "reference_texts", ())
            check_reference_texts(texts, needed=needed)
            planned = plan(request, self.model, self.backend.limits)
            return planned, Conditions(interventions, read_references(texts, self.model), changes)

        with ExitStack() as used:
            models = {name: used.enter_context(self.backend.registry.use(name)) for name in source_models(asked)}
            large = large or any(model.tokenizer.growth > 1 for model in models.values())
            return await self.compute(work, large=large, priority=priority)

    async def compute(self, work: Callable[[], T], *, large: bool = True, priority: Priority = Priority.BULK) -> T:
        """Runs a pure computation, in a thread if it is `large`, so that the loop goes on; see Engine.compute."""
        if not large:
            return work()
        return await self.backend.engine.compute(work, client=self.client, deadline=self.deadline, priority=priority)

    async def edits(self, conditions: Conditions) -> Edits | None:
        """Returns the edits of the interventions; runs the texts that they take means or vectors from."""
        return (await self.edits_with(conditions))()

    async def edits_with(self, conditions: Conditions) -> Callable[..., Edits | None]:
        """Returns a function that returns the edits of the interventions with further changes at sites after them; runs the
        texts that they take means or vectors from."""
        interventions, means = await self.interventions(conditions), await self.means(conditions)
        return lambda *changes: interventions.at_sites(changes).edits(means)

    async def interventions(self, conditions: Conditions) -> Interventions:
        """Returns the interventions with their changes at sites; runs the texts that these take means or vectors from."""
        if not conditions.changes:
            return conditions.interventions
        return conditions.interventions.at_sites(await site_changes(self, conditions.changes, conditions.references))

    async def means(self, conditions: Conditions, *, needed: bool = False) -> NDArray[np.float32] | None:
        """Returns mean contexts [layers, heads, head_size] over the reference texts; None unless they are `needed` or an
        intervention takes them."""
        if not conditions.references or not (needed or conditions.interventions.needs_means):
            return None
        return await mean_contexts(self.model.encoder, conditions.references, self.bulk())

    async def run(self, rows: Sequence[Row], *, admitted: bool = False) -> list[Any]:
        """Runs rows. Returns one result for each; see Engine.run."""
        return await self.backend.engine.run(rows, client=self.client, deadline=self.deadline, admitted=admitted)

    async def run_rest(self, plan: Rounds, results: Sequence[Any], edits: Edits | None) -> None:
        """Runs the rounds of a plan after the first one, which had these results. An admitted call is not rejected later."""
        while True:
            advance = partial(plan.advance, results)
            await self.compute(advance, large=len(plan.rows) > INLINE_ROWS, priority=Priority.INTERACTIVE)
            if not plan.rows:
                return
            rows = [Row(self.model.encoder, sequence, observer, edits) for sequence, observer in plan.rows]
            results = await self.run(rows, admitted=True)

    def bulk(self, encoder: Encoder | None = None, ahead: int = AHEAD_BATCHES) -> BulkRunner:
        """Returns a runner for rows of the model, or of another encoder, which yields to interactive rows; see BulkRunner."""
        return BulkRunner(self.backend.engine, encoder or self.model.encoder, self.client, self.deadline, ahead)


async def answer(
    backend: Backend,
    request: RequestT,
    context: Context,
    plan: Read[RequestT, PlanT],
    render: Callable[[PlanT, list[Any], LoadedModel], T],
    *,
    model: str,
    size: Callable[[RequestT], int] = request_bytes,
    inline_bytes: int = INLINE_REPLY_BYTES,
) -> T:
    """Answers a request that queries one model; `render` makes the reply from the plan and the results of its rows.

    A plan of several Rounds holds its results itself; `render` gets those of the first round beside it.
    `size`: see Call.prepare. `inline_bytes`: smaller replies are rendered on the loop.
    """
    with backend.registry.use(model) as loaded:
        call = Call.of(backend, loaded, context)
        planned, edits = await call.prepare(request, plan, size=size)
        results = await call.run([Row(loaded.encoder, sequence, observer, edits) for sequence, observer in planned.rows])
        several: object = planned
        if isinstance(several, Rounds):
            await call.run_rest(several, results, edits)
        large = planned.reply_bytes > inline_bytes
        return await call.compute(lambda: render(planned, results, loaded), large=large, priority=Priority.INTERACTIVE)
