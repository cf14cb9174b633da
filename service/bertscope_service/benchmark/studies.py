"""Builds systems one after another and measures each beside its baseline."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from bertscope_service.benchmark.build import Built
from bertscope_service.benchmark.building import Building, Check
from bertscope_service.benchmark.inputs import Measurement, Subject
from bertscope_service.benchmark.integer_speed import integer_remark
from bertscope_service.benchmark.measure import Measured, measure
from bertscope_service.benchmark.scenarios import Report
from bertscope_service.benchmark.shapes import Recurrent, Transformer
from bertscope_service.benchmark.systems import BASELINES, System
from bertscope_service.benchmark.timings import Ratio
from bertscope_service.checkpoints.steps import Step
from bertscope_service.encoders.device_memory import release_cache
from bertscope_service.engine.engine import Engine
from bertscope_service.errors import FailedPrecondition, Overloaded, Unsupported
from bertscope_service.models.loaded import LoadedModel
from bertscope_service.models.runtime_choice import PREFERRED, decide

BRIEF_SECONDS = 0.3
"""Seconds for which each library is measured to find the faster one."""

logger = logging.getLogger(__name__)


Build = Callable[[str, Transformer | Recurrent, Sequence[Step], str, Check], Built]
"""Builds a model of a name and shape with some steps, for "torch" or "onnx"; the other one runs what it can't.

Blocks for seconds, in a thread; the check is called regularly and may raise to abandon the build. Raises FailedPrecondition,
Unsupported.
"""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A system and its baseline, as measured in alternation; `measured` has the baseline first."""

    baseline: LoadedModel
    model: LoadedModel
    measured: Measured


@dataclass(frozen=True, slots=True)
class Row:
    """The outcome of one system: a comparison, or the reason for its absence.

    A reference to it keeps its models in memory.
    """

    system: System
    built: str = ""
    not_measured: str = ""
    comparison: Comparison | None = None


@dataclass
class Studies:
    """One BenchmarkStudies call. At most two models are in memory: a baseline, for as long as it is needed, and the measured
    system."""

    systems: Sequence[System]
    measurement: Measurement
    runtime: str
    engine: Engine
    build: Build
    baselines: Mapping[str, Transformer] = field(default_factory=lambda: BASELINES)
    building: Building = field(default_factory=Building)
    _baseline: tuple[tuple[str, str], LoadedModel] | None = field(default=None, init=False)

    async def run(self, report: Report, deliver: Callable[[Row], None]) -> None:
        """Delivers a row for each system, in order. Cancelling ends it at once; a model that is being built is freed when it
        is done.

        Raises what `measure` raises; while the library is still to be chosen, FailedPrecondition if PyTorch has no memory for
        the first baseline.
        """
        try:
            await self._choose_runtime(report)
            for number, system in enumerate(self.systems):
                deliver(await self._row(system, partial(self._report, report, number)))
                await self._clean()
        finally:
            self._baseline = None

    async def _choose_runtime(self, report: Report) -> None:
        """Chooses the library for "auto" in the same way as for a loaded model.

        The preferred library runs all systems unless the other one runs the first baseline clearly faster.
        """
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
        if speedup is not None and faster(speedup, PREFERRED[torch_model.model.encoder.device.type]) == "onnx":
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
        except Overloaded as error:  # the device's memory is too small
            return Row(system, built.description, error.message)
        words = "; ".join(filter(None, (built.description, recipe.remark, integer_remark(built.model.encoder))))
        return Row(system, words, comparison=Comparison(baseline, built.model, measured))

    async def _find_baseline(self, name: str, runtime: str, report: Report) -> LoadedModel:
        """Returns a baseline run by the same library as the system; frees the one before."""
        if self._baseline is None or self._baseline[0] != (name, runtime):
            self._baseline = None
            await self._clean()
            report(f"building {name}", 0.0)
            built = await self._build(name, self.baselines[name], (), runtime)
            self._baseline = (name, runtime), built.model
        return self._baseline[1]

    async def _build(self, name: str, shape: Transformer | Recurrent, steps: Sequence[Step], runtime: str) -> Built:
        return await self.building.do(partial(self.build, name, shape, steps, runtime))

    async def _clean(self) -> None:
        """Frees the device memory of models without references."""
        # In a thread, because it waits for running kernels.
        await asyncio.to_thread(release_cache)


def faster(speedup: Ratio, preferred: str) -> str:
    """Returns the library that runs all systems; `speedup` is the speed of onnx relative to torch."""
    low = speedup.low if preferred == "torch" else 1 / speedup.high
    return decide(preferred, low)
