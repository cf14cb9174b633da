"""Runs callers that make random calls, wait, hurry, cancel or send invalid requests, and check the answers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import bertscope
import grpc.aio
import numpy as np

from benchmarks.soak.asking import Answer, Caller, Question, Role
from benchmarks.soak.guest import ABSENT, Guest, Moment
from benchmarks.soak.tally import ALWAYS, Tally, code_of, counted

HURRY_SECONDS = (0.001, 0.05)
"""The shortest and longest timeout of a caller in a hurry."""

CANCEL_SECONDS = 0.05
"""The mean time after which a call is cancelled."""

MANNERS = ("", ", hurried", ", given up", "nonsense", "health")
SHARES = (0.72, 0.1, 0.1, 0.05, 0.03)

NONSENSE: tuple[tuple[str, dict[str, object]], ...] = (
    ("INVALID_ARGUMENT", {"texts": "no mask here"}),
    ("INVALID_ARGUMENT", {"texts": []}),
    ("INVALID_ARGUMENT", {"texts": "[MASK] " * 10_000}),
    ("INVALID_ARGUMENT", {"texts": "a [MASK].", "top_k": 10_000_000}),
    ("INVALID_ARGUMENT", {"texts": "a [MASK].", "interventions": [bertscope.zero(layer=999)]}),
    ("NOT_FOUND", {"texts": "a [MASK].", "model": "models/nobody"}),
)
"""Requests that must be rejected, with the expected status."""


@dataclass(frozen=True, slots=True)
class Asking:
    """The shared state of all callers. `truths` are by question and digest; `models` are the names of the roles; `patience` is
    the timeout, in seconds, of a caller that isn't in a hurry; `unasked` are the questions that come before any comes twice."""

    questions: Sequence[Question]
    unasked: list[Question]
    truths: Mapping[tuple[Question, str], Answer]
    models: Mapping[Role, str]
    guest: Guest
    tally: Tally
    patience: float

    async def keep_asking(self, caller: Caller, draw: np.random.Generator, *, end: float, pause: float) -> None:
        """Makes one call after another, with `pause` seconds between them on average.

        Stops at `end`, a loop time, or later: on a slow machine too, each question is asked once by a caller who waits.
        """
        weights = np.array([question.weight for question in self.questions])
        loop = asyncio.get_running_loop()
        while self.unasked or loop.time() < end:
            manner = draw.choice(MANNERS, p=SHARES)
            if manner == "nonsense":
                await self._nonsense(caller, draw)
            elif manner == "health":
                await self._health(caller)
            else:
                drawn = self.questions[draw.choice(len(weights), p=weights / weights.sum())]
                question = self.unasked.pop() if self.unasked and not manner else drawn
                await self._ask(question, caller, manner, draw)
            await asyncio.sleep(draw.exponential(pause))

    async def _ask(self, question: Question, caller: Caller, manner: str, draw: np.random.Generator) -> None:
        """Asks one question, checks its answer, and counts its end."""
        kind, before = question.kind + manner, self.guest.now()
        timeout = draw.uniform(*HURRY_SECONDS) if manner == ", hurried" else self.patience
        call = asyncio.ensure_future(question.ask(caller, self.models[question.role], timeout))
        if manner == ", given up":
            asyncio.get_running_loop().call_later(draw.exponential(CANCEL_SECONDS), call.cancel)
        code, message, mixed = "OK", "", False
        try:
            self._check(question, kind, await call, before)
        except (bertscope.BertscopeError, grpc.aio.AioRpcError) as error:
            code, message = code_of(error), " ".join(str(error).split())
            mixed = isinstance(error, bertscope.FailedPrecondition) and {"before", "now"} <= error.metadata.keys()
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise  # the caller is cancelled, not the call
            code = "CANCELLED"
        self.tally.ended(kind, code, self._allowed(question, manner, before, mixed=mixed), message)

    def _allowed(self, question: Question, manner: str, before: Moment, *, mixed: bool) -> frozenset[str]:
        """Returns the codes that are no fault. mixed: the client divided a question, and found other weights later."""
        if mixed and question.role is Role.GUEST and len(self.guest.since(before)) > 1:
            return ABSENT
        codes = ALWAYS | {", hurried": {"DEADLINE_EXCEEDED"}, ", given up": {"CANCELLED"}}.get(manner, set())
        excused = question.role is Role.GUEST and not self.guest.stayed(before)
        return codes | ABSENT if excused else codes

    def _check(self, question: Question, kind: str, answer: Answer, before: Moment) -> None:
        """Compares an answer with the true one of the weights that gave it, which must be allowed to answer."""
        truth = self.truths.get((question, answer.digest))
        if truth is None:
            self.tally.was_wrong(kind, f"answered by unknown weights {answer.digest!r}")
        elif question.role is Role.GUEST and answer.digest not in self.guest.since(before):
            self.tally.was_wrong(kind, f"answered by weights of another time, {answer.digest}")
        elif not answer.agrees(truth):
            self.tally.was_wrong(kind, "not the true answer")

    async def _nonsense(self, caller: Caller, draw: np.random.Generator) -> None:
        code, request = NONSENSE[draw.integers(len(NONSENSE))]
        call = caller.client.fill_mask(**request, timeout=self.patience)  # type: ignore[arg-type]
        await counted(self.tally, "nonsense", call, {code})

    async def _health(self, caller: Caller) -> None:
        health = await counted(self.tally, "health", caller.client.health(timeout=self.patience), {"OK"})
        if health is not None and health.status != "SERVING":
            self.tally.was_wrong("health", health.status)
