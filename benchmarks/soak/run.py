"""Runs a soak: callers, a guest that comes and goes, and samples of memory, all at once on one server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

import bertscope
import grpc.aio
import numpy as np

from benchmarks.lib.background import OWN_CONNECTION
from benchmarks.lib.fillings import Filling
from benchmarks.lib.serving import Running
from benchmarks.soak.asking import Answer, Caller, Question, Role
from benchmarks.soak.callers import Asking
from benchmarks.soak.guest import NAME, Checkpoint, Guest, keep_changing
from benchmarks.soak.making import Operator, Recipe, true_fillings
from benchmarks.soak.questions import questions, true_answers
from benchmarks.soak.samples import Sample, keep_sampling
from benchmarks.soak.tally import Tally

NO_RETRIES = ("grpc.enable_retries", 0)
"""A retry would hide an UNAVAILABLE, which should never occur."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The duration, the numbers of callers and connections, and the pauses (seconds, on average) of callers and of the
    guest. A call that isn't answered within `patience` seconds is a fault."""

    seconds: float
    callers: int = 8
    connections: int = 4
    pause: float = 0.02
    guest_pause: float = 1.0
    operators: int = 0
    """Number of operators that load, replace, compress, prune and unload their own models at the same time."""
    sample_seconds: float = 2.0
    patience: float = 60.0
    seed: int = 5


@dataclass(frozen=True, slots=True)
class Truths:
    """The questions, the true answers by question and digest, and the two checkpoints of the guest."""

    questions: Sequence[Question]
    answers: Mapping[tuple[Question, str], Answer]
    checkpoints: Sequence[Checkpoint]
    made: Mapping[Recipe, Sequence[Filling]] = field(default_factory=dict)
    """The answers of models that operators make, by recipe."""


@dataclass(slots=True)
class Outcome:
    """Calls and memory."""

    tally: Tally = field(default_factory=Tally)
    samples: list[Sample] = field(default_factory=list)


async def find_truths(
    target: str, names: Mapping[Role, str], guests: Mapping[str, Path], making: Sequence[Recipe] = ()
) -> Truths:
    """Queries an idle server that hosts every model under its own name: each of the guest's checkpoints, too, by `guests`.

    A server that handles one call at a time can't mix anything up. Roles without a model are not queried.
    """
    models = {role: [*guests] if role is Role.GUEST else [names[role]] for role in (*names, Role.GUEST)}
    asked = [question for question in questions() if question.role in models]
    async with connected(target) as caller:
        answers = await true_answers(asked, caller, models)
        made = await true_fillings(making, caller.client)
        digests = {model.name: model.weights_digest for model in await caller.client.list_models()}
    checkpoints = [Checkpoint(folder, digests[name]) for name, folder in guests.items()]
    return Truths(asked, answers, checkpoints, made)


async def soak(server: Running, names: Mapping[Role, str], truths: Truths, plan: Plan) -> Outcome:
    """Uses a server that hosts the models of `names` but the guest, which comes and goes."""
    outcome, guest = Outcome(), Guest()
    models = {**names, Role.GUEST: f"models/{NAME}"}
    seeds = np.random.SeedSequence(plan.seed).spawn(plan.callers + 2 + plan.operators)
    order, *draws, guest_draw = map(np.random.default_rng, seeds)
    unasked = [truths.questions[number] for number in order.permutation(len(truths.questions))]
    asking = Asking(truths.questions, unasked, truths.answers, models, guest, outcome.tally, plan.patience)
    operators, draws = draws[plan.callers :], draws[: plan.callers]
    end = asyncio.get_running_loop().time() + plan.seconds
    async with AsyncExitStack() as stack:
        callers = [await stack.enter_async_context(connected(server.target)) for _ in range(plan.connections)]
        operator = await stack.enter_async_context(connected(server.target))
        changing = keep_changing(
            guest, operator.client, truths.checkpoints, outcome.tally, guest_draw, end=end, pause=plan.guest_pause
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(keep_sampling(server.process, outcome.samples, end=end, every=plan.sample_seconds))
            group.create_task(changing)
            for number, draw in enumerate(operators, 1):
                caller = await stack.enter_async_context(connected(server.target))
                making = Operator(number, caller.client, truths.made, outcome.tally)
                group.create_task(making.keep_making(draw, end=end, pause=plan.guest_pause))
            for number, draw in enumerate(draws):
                caller = callers[number % plan.connections]
                group.create_task(asking.keep_asking(caller, draw, end=end, pause=plan.pause))
    return outcome


@contextlib.asynccontextmanager
async def connected(target: str) -> AsyncIterator[Caller]:
    """Yields a separate connection for each protocol."""
    options = [OWN_CONNECTION, NO_RETRIES]
    async with bertscope.AsyncClient(target, options=options) as client, grpc.aio.insecure_channel(target, options) as channel:
        yield Caller(client, channel)
