"""Builds systems one after another and measures each beside what it is compared with."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol

import torch

from bertscope_service.benchmarks.build import Built, Check
from bertscope_service.benchmarks.shapes import Recurrent, Transformer
from bertscope_service.benchmarks.systems import BASELINES, System
from bertscope_service.compression.steps import Step
from bertscope_service.engine.engine import Engine
from bertscope_service.errors import FailedPrecondition, LoadAbandonedError, Overloaded, Unsupported
from bertscope_service.jobs.benchmark import Measured, Measurement, Report, Subject, measure
from bertscope_service.loaded import LoadedModel
from bertscope_service.registry import in_own_thread

BRIEF_SECONDS = 0.3
"""How long each library is measured to find the faster one."""

logger = logging.getLogger(__name__)


class Build(Protocol):
    """Builds a shape and does something to it."""

    def __call__(self, name: str, shape: Transformer | Recurrent, steps: Sequence[Step], runtime: str, check: Check) -> Built:
        """Blocks for seconds, in a thread. `runtime` is "torch" or "onnx"; what that can't run the other one does. `check` is
        called now and then and may raise to abandon. Raises FailedPrecondition, Unsupported."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A system and its baseline, as measured in alternation; `measured` has the baseline first."""

    baseline: LoadedModel
    model: LoadedModel
    measured: Measured


@dataclass(frozen=True, slots=True)
class Row:
    """What became of one system: a comparison, or the reason why there is none.

    Whoever keeps it keeps its models in memory.
    """

    system: System
    built: str = ""
    not_measured: str = ""
    comparison: Comparison | None = None


@dataclass
class Studies:
    """One BenchmarkStudies call. There are never more than two models in memory: a baseline, which stays while it is needed,
    and the system that is measured."""

    systems: Sequence[System]
    measurement: Measurement
    runtime: str
    engine: Engine
    build: Build
    baselines: Mapping[str, Transformer] = field(default_factory=lambda: BASELINES)
    _baseline: tuple[tuple[str, str], LoadedModel] | None = field(default=None, init=False)

    async def run(self, report: Report, deliver: Callable[[Row], None]) -> None:
        """Deliver a row for each system, in order. Cancelling ends it at once; a model that is being built goes once it is
        done.

        Raises what `measure` raises; where the library is still to be chosen, FailedPrecondition if PyTorch has no room for the
        first baseline.
        """
        try:
            await self._choose_runtime(report)
            for number, system in enumerate(self.systems):
                deliver(await self._row(system, partial(self._report, report, number)))
                await self._clean()
        finally:
            self._baseline = None

    async def _choose_runtime(self, report: Report) -> None:
        """For "auto": the library that runs the first baseline faster runs all systems."""
        needed = [system.recipe.baseline for system in self.systems if system.recipe is not None]
        if self.runtime != "auto" or not needed:
            return
        report(f"building {needed[0]}, to find the faster library", 0.0)
        torch_model = await self._build(needed[0], self.baselines[needed[0]], (), "torch")
        self.runtime, self._baseline = "torch", ((needed[0], "torch"), torch_model.model)
        try:
            onnx_model = await self._build(needed[0], self.baselines[needed[0]], (), "onnx")
        except (FailedPrecondition, Unsupported) as error:
            logger.warning("the studies are run by torch: %s", error.message)
            return
        subjects = [Subject(built.model.encoder) for built in (torch_model, onnx_model)]
        lengths = self.measurement.lengths[:1]
        brief = replace(self.measurement, lengths=lengths, batch_sizes=(1,), min_runs=3, min_seconds=BRIEF_SECONDS)
        measured = await measure(
            subjects, brief, self.engine, lambda stage, _: report(f"finding the faster library: {stage}", 0.0)
        )
        speedup = measured.models[1].speeds[0].latency_speedup
        if speedup is not None and speedup.value > 1:
            self.runtime, self._baseline = "onnx", ((needed[0], "onnx"), onnx_model.model)

    def _report(self, report: Report, number: int, stage: str, done: float) -> None:
        name, total = self.systems[number].published.name, len(self.systems)
        report(f"{name} ({number + 1} of {total}): {stage}", (number + done) / total)

    async def _row(self, system: System, report: Report) -> Row:
        recipe = system.recipe
        if recipe is None:
            return Row(system, not_measured=system.not_measured)
        report("building", 0.0)
        try:
            built = await self._build(system.published.name, recipe.shape, recipe.steps, self.runtime)
        except (FailedPrecondition, Unsupported) as error:
            return Row(system, str(recipe.shape), error.message)
        try:
            baseline = await self._find_baseline(recipe.baseline, built.model.encoder.runtime, report)
        except (FailedPrecondition, Unsupported) as error:
            return Row(system, built.description, f"there is no {recipe.baseline} to compare it with: {error.message}")
        subjects = [Subject(baseline.encoder), Subject(built.model.encoder)]
        try:
            measured = await measure(subjects, self.measurement, self.engine, report)
        except Overloaded as error:  # the device's memory is too small for it
            return Row(system, built.description, error.message)
        words = f"{built.description}; {recipe.remark}" if recipe.remark else built.description
        return Row(system, words, comparison=Comparison(baseline, built.model, measured))

    async def _find_baseline(self, name: str, runtime: str, report: Report) -> LoadedModel:
        """A baseline run by the same library as the system; the one before is given up for it."""
        if self._baseline is None or self._baseline[0] != (name, runtime):
            self._baseline = None
            await self._clean()
            report(f"building {name}", 0.0)
            built = await self._build(name, self.baselines[name], (), runtime)
            self._baseline = (name, runtime), built.model
        return self._baseline[1]

    async def _build(self, name: str, shape: Transformer | Recurrent, steps: Sequence[Step], runtime: str) -> Built:
        abandoned = threading.Event()

        def check() -> None:
            if abandoned.is_set():
                raise LoadAbandonedError

        try:
            return await in_own_thread(partial(self.build, name, shape, steps, runtime, check))
        except asyncio.CancelledError:
            abandoned.set()
            raise

    async def _clean(self) -> None:
        """Give the memory of a model back that nobody holds any more."""
        if torch.cuda.is_initialized():
            # Waits for what runs on the device, so not on the loop.
            await asyncio.to_thread(torch.cuda.empty_cache)
