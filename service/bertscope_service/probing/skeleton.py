"""The skeleton of all calls that train on hidden states: the states of all texts once, in memory or in a file, then steps of
training, behind everybody's interactive rows.

A kind of training says which plan it reads, what it takes up, and what it does with the states.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from bertscope_service.analyses.observers.span_states import SpanStatesObserver
from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.edits import Edits
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.encoders.size_limits import size_limits
from bertscope_service.engine.bulk import BulkRunner
from bertscope_service.engine.rows import Row
from bertscope_service.errors import FailedPrecondition
from bertscope_service.probing.blocks import slices, step_tokens
from bertscope_service.probing.states import SpanStates
from bertscope_service.probing.steps import Step, StepRunner

NOT_FINITE = (
    "the model's hidden states are not finite in this precision or under these interventions; "
    "load it in fp32 or bf16, or use smaller scales"
)

ADDED_BYTES = 16_000_000
"""States that wait to be added together."""

STATES, TRAINING = 0, 1
"""The first stages of a call; those after them are its own."""


@dataclass(frozen=True, slots=True)
class Progress:
    """`done` of `total` texts were run, or epochs trained, of a stage of the call. `best`: what training has reached so far, by
    the measure that its rpc names."""

    stage: int
    done: int
    total: int
    best: float = 0.0


class Part(Protocol):
    """Texts of one part, with what reads their states."""

    @property
    def rows(self) -> Sequence[tuple[TokenSequence, SpanStatesObserver]]: ...


class Plan(Protocol):
    """The texts of a call, tokenized; those to train on first."""

    @property
    def parts(self) -> Sequence[Part]: ...


EditsWith = Callable[..., Edits | None]
"""Returns the edits of a call with further changes at sites, after its own."""

Report = Callable[[Progress], None]

PlanT = TypeVar("PlanT", bound=Plan)
SettingsT = TypeVar("SettingsT")
FoundT = TypeVar("FoundT")


class Training(ABC, Generic[PlanT, SettingsT, FoundT]):
    """The training of one call, by its plan and its settings. `weights`: what was trained is sent, too."""

    encoder: Encoder
    bulk: BulkRunner
    steps: StepRunner
    states: SpanStates
    """The states of all spans, when `train` is called."""
    edits: EditsWith
    _report: Report

    def __init__(self, plan: PlanT, settings: SettingsT, *, weights: bool = False) -> None:
        self.plan, self.settings, self.weights = plan, settings, weights

    @abstractmethod
    def shape(self, encoder: Encoder) -> tuple[int, int, int]:
        """Returns the shape of the states that a model gives: spans, layers, and length."""

    @abstractmethod
    def needed_bytes(self, encoder: Encoder) -> int:
        """Returns the memory that training takes beside the states, approximately."""

    @abstractmethod
    async def train(self) -> FoundT:
        """Trains on the states, and returns what was found."""

    async def run(self, encoder: Encoder, bulk: BulkRunner, edits: EditsWith, report: Report, *, on_disk: bool) -> FoundT:
        """Computes the states and trains. `report` is told the progress. Raises FailedPrecondition if states are not finite, or
        the disk is full."""
        self.encoder, self.bulk, self.edits, self._report = encoder, bulk, edits, report
        self.steps = StepRunner(encoder, bulk)
        self.states = await bulk.compute(partial(SpanStates, self.shape(encoder), encoder.device, on_disk=on_disk))
        await self._fill()
        await self._bring()
        return await self.train()

    async def each(self, part: slice, work: Callable[[slice], None]) -> None:
        """Does some work for all spans of a part that reads, or writes, the states of some at a time."""
        spans = size_limits(self.encoder.device).evaluated_spans
        cost = step_tokens(0, spans * self.states.values[0].numel())
        await self.steps.run(Step(cost, partial(work, chosen)) for chosen in slices(part, spans))

    async def standardise(self, train: int, work: Callable[[int], None] | None = None) -> None:
        """Measures the first `train` spans, and reads states with their mean and deviation from then on, or as `work`
        decides."""
        await self.each(slice(0, train), self.states.measure)
        cost = step_tokens(0, self.states.values[0].numel())
        await self.steps.run([Step(cost, partial(work or self.states.standardise, train))])

    def tell(self, stage: int, done: int, total: int, best: float = 0.0) -> None:
        """Tells the caller how far the call is."""
        self._report(Progress(stage, done, total, best))

    def joined(self, found: NDArray[np.float32]) -> NDArray[np.float32]:
        """Returns what is trained on, of the states of a row's spans, [spans, layers, hidden]."""
        return found

    async def _fill(self) -> None:
        """Computes the states of all rows' spans and keeps them, in order."""
        rows = [row for part in self.plan.parts for row in part.rows]
        edits = self.edits()

        def made(number: int) -> Row:
            sequence, observer = rows[number]
            return Row(self.encoder, sequence, observer, edits)

        def add(found: Iterable[NDArray[np.float32]]) -> None:
            for states in found:
                self.states.add(self.joined(states))

        self.tell(STATES, 0, len(rows))
        done = 0
        sizes = [max(len(sequence), observer.vectors) for sequence, observer in rows]
        async with aclosing(self.bulk.results(sizes, made)) as results:
            found, waiting = list[NDArray[np.float32]](), 0
            async for states in results:
                if states is None:
                    raise FailedPrecondition(NOT_FINITE, "STATES_NOT_FINITE")
                found.append(states)
                done, waiting = done + 1, waiting + states.nbytes
                if done == len(rows) or waiting >= ADDED_BYTES:
                    await self.bulk.compute(partial(add, found))  # to memory that is new, or a file, behind a disk
                    found, waiting = [], 0
                self.tell(STATES, done, len(rows))

    async def _bring(self) -> None:
        """Brings all states to a device that is not the host, in steps, if it has room for them: training reads each many
        times."""
        if self.encoder.device.type == "cpu" or not await self.steps.result(1, self.states.make_room):
            return
        await self.each(slice(0, len(self.states.values)), self.states.bring)
        self.states.end_bringing()


AnyTraining = Training[Any, Any, Any]
