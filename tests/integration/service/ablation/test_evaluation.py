"""The values of a sweep are those of transformers, whatever is kept of its rows, and its memory is bounded."""

import asyncio
import gc
import threading
import weakref
from collections.abc import Callable, Sequence
from contextlib import aclosing
from typing import ClassVar

import numpy as np
import pytest
import torch
from bertscope_service.ablation import evaluation as evaluation_module
from bertscope_service.ablation.mean_contexts import mean_contexts
from bertscope_service.ablation.sweep_plan import every_head
from bertscope_service.analyses.interventions import Interventions, Mode
from bertscope_service.analyses.observers.predictions import GoldObserver, GoldScores
from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.edits import BatchEdits
from bertscope_service.encoders.observer import Readout
from bertscope_service.encoders.state import State
from bertscope_service.engine.bulk import BulkRunner
from bertscope_service.errors import Unavailable
from numpy.typing import NDArray

from tests.support.hosted import PLENTY, SCALE, GoldObjective, Hosted, Run, edit, needed_bytes, running
from tests.support.reference import HeadEdits
from tests.support.rounding import BOTH_SIDES
from tests.support.subjects import THREE

pytestmark = pytest.mark.asyncio


CASES = [
    *((THREE[0], mode, memory) for mode, memory in zip(Mode, ("everything", "few", "one", "no reuse"), strict=True)),
    *((architecture, Mode.MEAN, "few") for architecture in (*THREE[1:], "mobilebert")),
]


def budget(hosted: Hosted, memory: str) -> int:
    """Memory for all rows' states, for two or three of them, or for no more than the longest one's."""
    # The hidden states of a layer, its contexts and the mean of its values.
    sizes = [4 * hosted.encoder.shape.hidden_size * (2 * len(sequence) + 1) for sequence in hosted.sequences]
    return {"few": max(sizes) * 5 // 4 + sizes[0], "one": max(sizes)}.get(memory, PLENTY)


def base_of(hosted: Hosted) -> tuple[Interventions, HeadEdits]:
    """Heads changed by each mode, some of which the sets change too."""
    heads = {(0, 0): Mode.ZERO, (0, 1): Mode.UNIFORM, (1, 0): Mode.MEAN, (1, 3): Mode.SCALE, (2, 1): Mode.MEAN}
    interventions = hosted.untouched
    for (layer, head), mode in heads.items():
        interventions = interventions.change(((layer, (head,)),), mode, SCALE)
    return interventions, {place: edit(mode, hosted.means[place]) for place, mode in heads.items()}


@pytest.mark.parametrize("based", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["on interventions", "untouched"])
@pytest.mark.parametrize(("hosted", "mode", "memory"), CASES, ids=str, indirect=["hosted"])
async def test_values_are_those_of_transformers(hosted: Hosted, mode: Mode, memory: str, based: bool) -> None:
    """Of single heads, whole layers and sets over several layers. What is changed already is changed from there: a head of both
    contributes what the set says.

    Edits of the other modes are compared with edited maps on every architecture, in encoders/test_encoder_gates.py.
    """
    base, edits = base_of(hosted) if based else (hosted.untouched, {})
    objective, reuse = GoldObjective(hosted.sequences), memory != "no reuse"
    run = Run(hosted, objective, mode, reuse=reuse, memory_bytes=budget(hosted, memory), batch_tokens=64, base=base)
    async with running(64) as engine:
        found = await run.values(engine, hosted.sets())
    wanted = {heads: objective.expected(hosted, {**edits, **hosted.edits(heads, mode)}) for heads in ((), *hosted.sets())}
    assert set(found) == set(wanted)
    for heads, values in wanted.items():
        # Beside the size of the losses where they are over 1.
        np.testing.assert_allclose(found[heads], values, rtol=BOTH_SIDES, atol=BOTH_SIDES, err_msg=str(heads))
    losses: list[NDArray[np.float64]] = [values[0] for values in found.values()]
    if not based:
        assert all(np.abs(one - other).max() > 1e-3 for index, one in enumerate(losses) for other in losses[:index])


@pytest.mark.parametrize("batch_tokens", [16, 1024])
@pytest.mark.parametrize("hosted", ["bert", "modernbert"], indirect=True)
async def test_mean_contexts(hosted: Hosted, batch_tokens: int) -> None:
    """Not the mean of the texts' means: long texts count more."""
    sequences, reference = hosted.references, hosted.reference
    async with running(batch_tokens) as engine:
        found = await mean_contexts(hosted.encoder, sequences, BulkRunner(engine, hosted.encoder, "client", None))
    wanted = np.concatenate([reference.contexts(sequence).numpy() for sequence in sequences], axis=2).mean(axis=2)
    assert found.dtype == np.float32
    assert found.shape == wanted.shape == (hosted.encoder.shape.layers, hosted.encoder.shape.heads, wanted.shape[2])
    np.testing.assert_allclose(found, wanted, rtol=0, atol=BOTH_SIDES)
    of_texts = np.stack([reference.contexts(sequence).numpy().mean(axis=2) for sequence in sequences]).mean(axis=0)
    assert np.abs(found - of_texts).max() > 1e-3


class Kept:
    """The tensors of all states that were taken out of batches, as long as they live."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._tensors: list[weakref.ref[torch.Tensor]] = []
        self.most = self.taken = 0
        self._rows = State.rows
        monkeypatch.setattr(State, "rows", lambda state, indices: self._take(state, indices))

    @property
    def bytes(self) -> int:
        alive = [tensor for one in self._tensors if (tensor := one()) is not None]
        return sum(tensor.untyped_storage().nbytes() for tensor in alive)

    def _take(self, state: State, indices: Sequence[int]) -> list[State]:
        rows = self._rows(state, indices)
        for row in rows:
            context = [] if row.context is None else [row.context.own, row.context.mean]
            self._tensors += [weakref.ref(tensor) for tensor in (row.hidden, *context)]
        self.taken += len(rows)
        self.most = max(self.most, self.bytes)
        return rows


class WatchedProbe(GoldObserver):
    """Calls `during` in every batch."""

    during: ClassVar[Callable[[], None]]

    @classmethod
    def run(cls, encoder: Encoder, state: State, gates: BatchEdits | None, observers: Sequence["WatchedProbe"]) -> Readout:
        cls.during()
        return super().run(encoder, state, gates, observers)


class CountedProbe(GoldObserver):
    """Counts the rows of every batch."""

    ran: ClassVar[list[int]]

    @classmethod
    def run(cls, encoder: Encoder, state: State, gates: BatchEdits | None, observers: Sequence["CountedProbe"]) -> Readout:
        cls.ran.append(len(observers))
        return super().run(encoder, state, gates, observers)


def shares(hosted: Hosted) -> dict[str, int]:
    sizes = needed_bytes(hosted.encoder, hosted.sequences)
    return {"all": sum(sizes), "all but one": sum(sizes) - 1, "some": max(sizes) * 3 // 2, "one": max(sizes)}


@pytest.mark.slow
@pytest.mark.parametrize("share", ["all", "all but one", "some", "one"])
async def test_kept_states_stay_within_the_budget(
    masked_lm: Callable[[str], Hosted], monkeypatch: pytest.MonkeyPatch, share: str
) -> None:
    """While changes run exactly; while the next states are made, beside those of one batch. And they are used to the full."""
    hosted, kept = masked_lm("bert"), Kept(monkeypatch)
    budget, held = shares(hosted)[share], list[int]()
    monkeypatch.setattr(WatchedProbe, "during", lambda: held.append(kept.bytes), raising=False)
    objective = GoldObjective(hosted.sequences, WatchedProbe)
    run = Run(hosted, objective, Mode.ZERO, memory_bytes=budget, batch_tokens=16)
    async with running(16) as engine:
        evaluation = run.start(engine)
        await evaluation.baseline(hosted.untouched)
        held.clear()
        async with aclosing(evaluation.changed(hosted.untouched, every_head(4, 4))) as effects:
            async for _ in effects:
                held.append(kept.bytes)
        assert kept.bytes == 0
    assert 0 < max(held) <= budget
    assert share != "all" or max(held) == budget
    # The budget is that of the states between batches; in a batch of 16 tokens, or of one longer row, they are there twice.
    batch = max(needed_bytes(hosted.encoder, hosted.sequences))
    assert kept.most <= budget + batch


@pytest.mark.slow
async def test_results_that_wait_for_the_last_part_are_bounded(
    masked_lm: Callable[[str], Hosted], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With memory for one state, every set's values take as many parts as there are rows."""
    hosted, done = masked_lm("bert"), list[int]()
    rows = len(hosted.sequences)
    objective, sets = GoldObjective(hosted.sequences, CountedProbe), every_head(4, 4)
    budget = max(needed_bytes(hosted.encoder, hosted.sequences))
    run = Run(hosted, objective, Mode.ZERO, memory_bytes=budget, batch_tokens=16)
    found = {}
    monkeypatch.setattr(CountedProbe, "ran", done, raising=False)
    for limit in (2 * rows, 1):
        monkeypatch.setattr(evaluation_module, "HELD_RESULTS", limit)
        async with running(16) as engine:
            evaluation = run.start(engine)
            await evaluation.baseline(hosted.untouched)
            done.clear()
            found[limit] = []
            async with aclosing(evaluation.changed(hosted.untouched, sets)) as effects:
                async for heads, values in effects:
                    assert sum(done) - rows * len(found[limit]) <= max(limit, rows)
                    found[limit].append((heads, values.tolist()))
            assert sum(done) == rows * len(sets)
            assert evaluation.full_layer_passes == 4 * rows * (1 + len(sets))
    assert [heads for heads, _ in found[1]] == [heads for heads, _ in found[2 * rows]] == list(sets)
    for (_, one), (_, other) in zip(*found.values(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


async def test_values_of_many_rows_leave_the_loop_free(
    masked_lm: Callable[[str], Hosted], monkeypatch: pytest.MonkeyPatch
) -> None:
    hosted, threads = masked_lm("bert"), list[bool]()

    class Objective(GoldObjective):
        def measure(self, seen: Sequence[GoldScores]) -> NDArray[np.float64]:
            threads.append(threading.current_thread() is threading.main_thread())
            return super().measure(seen)

    for rows, inline in ((len(hosted.sequences), True), (len(hosted.sequences) - 1, False)):
        monkeypatch.setattr(evaluation_module, "INLINE_ROWS", rows)
        threads.clear()
        async with running(16) as engine:
            run = Run(hosted, Objective(hosted.sequences), Mode.ZERO)
            await run.values(engine, every_head(4, 4))
            await run.evaluation.whole(hosted.untouched)
        assert threads == [inline] * 18


@pytest.mark.slow
async def test_a_sweep_that_is_left_early_keeps_nothing(
    masked_lm: Callable[[str], Hosted], monkeypatch: pytest.MonkeyPatch
) -> None:
    hosted, kept = masked_lm("bert"), Kept(monkeypatch)
    run = Run(hosted, GoldObjective(hosted.sequences), Mode.ZERO, batch_tokens=16)
    async with running(16) as engine:
        evaluation = run.start(engine)
        await evaluation.baseline(hosted.untouched)
        async with aclosing(evaluation.changed(hosted.untouched, every_head(4, 4))) as effects:
            async for heads, _ in effects:
                assert kept.bytes > 0
                if heads[0][0] == 1:
                    break
        await engine.run([], client="nobody")
        await settled(lambda: kept.bytes == 0)


@pytest.mark.slow
async def test_a_sweep_that_fails_keeps_nothing(masked_lm: Callable[[str], Hosted], monkeypatch: pytest.MonkeyPatch) -> None:
    hosted, kept, batches = masked_lm("bert"), Kept(monkeypatch), list[int]()

    def fail_later() -> None:
        batches.append(kept.bytes)
        if len(batches) >= 40:  # and when rows run again alone
            raise Unavailable("broken", "BROKEN")

    monkeypatch.setattr(WatchedProbe, "during", fail_later, raising=False)
    run = Run(hosted, GoldObjective(hosted.sequences, WatchedProbe), Mode.ZERO)
    async with running(16) as engine:
        with pytest.raises(Unavailable, match="broken"):
            await run.values(engine, every_head(4, 4))
        assert batches[-1] > 0
        await settled(lambda: kept.bytes == 0)


async def settled(done: Callable[[], bool]) -> None:
    """Wait for the worker to leave the batch that it was in."""
    for _ in range(30):
        gc.collect()
        if done():
            return
        await asyncio.sleep(0.02)
    pytest.fail("something is still held")
