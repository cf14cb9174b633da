"""Measures the speed and the memory of models, side by side, with their devices leased.

For each length (or for given texts) the models first run one sequence at a time, in alternation. Then each model searches the
batch size of its best throughput, and all run such batches in alternation. MLPerf calls these scenarios single-stream and
offline.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from bertscope_service.benchmark.inputs import Inputs, Measurement, Subject, make_inputs
from bertscope_service.benchmark.scenarios import Bench, Offline, Report, Runs
from bertscope_service.benchmark.timings import Ratio, Timings, ratio_of_means, ratio_of_medians
from bertscope_service.encoders.base import Countable
from bertscope_service.encoders.device_memory import out_of_memory
from bertscope_service.engine.engine import Engine
from bertscope_service.engine.lease import Lease
from bertscope_service.engine.rows import Priority
from bertscope_service.errors import Overloaded
from bertscope_service.models.timed_runs import Trial
from bertscope_service.observability.machine import LoadMeter, Machine, describe

T = TypeVar("T")

PERCENTILES = (50, 90, 95, 99)


@dataclass(frozen=True, slots=True)
class Speed:
    """The speed of a model; see bertscope.v1.Speed. `percentiles` are p50, p90, p95 and p99, seconds; the baseline has no
    speed-ups."""

    length: int
    percentiles: tuple[float, ...]
    runs: int
    best_batch: int
    throughput: float
    batches: int
    latency_speedup: Ratio | None
    throughput_speedup: Ratio | None


@dataclass(frozen=True, slots=True)
class ModelMeasures:
    """The measurements of one model; bytes, see bertscope.v1.ModelReport."""

    resident_bytes: int
    working_bytes: int
    nonzero_parameters: int | None
    speeds: tuple[Speed, ...]


@dataclass(frozen=True, slots=True)
class Measured:
    """The measurements of all models, the machine, and the number of other calls that waited or were refused.

    `seconds` excludes the time until the devices were free.
    """

    models: tuple[ModelMeasures, ...]
    machine: Machine
    waited: int
    refused: int
    seconds: float
    cut_short: bool


async def measure(
    models: Sequence[Subject],
    measurement: Measurement,
    engine: Engine,
    report: Report,
    *,
    compared: Sequence[int] | None = None,
    inputs: Sequence[Inputs] | None = None,
) -> Measured:
    """Measures models with their devices leased.

    `compared` holds the number of the model that each is compared with, its own for none; unset, all are compared with the
    first. `inputs` are the result of make_inputs for the same models; unset, they are made here. Cancelling returns the
    devices after the current run. Raises InvalidArgument for a text that a model can't read, Overloaded if the smallest batch
    does not fit into a device's memory, Unavailable when the server stops.
    """
    others = [0] * len(models) if compared is None else compared
    if inputs is None:
        inputs = await _compute(engine, partial(make_inputs, models, measurement))
    meter = LoadMeter()
    async with _leased(models, engine, measurement, report) as leases:
        bench = Bench(
            [Trial(model.encoder, leases[model.encoder.device], model.embedding) for model in models], measurement, report
        )
        with meter.running():
            runs = [await bench.run(one, 2 * number, 2 * len(inputs)) for number, one in enumerate(inputs)]
        held = [await _weights(trial) for trial in bench.trials]
        on_cpu = [trial for trial in bench.trials if trial.encoder.device.type == "cpu"]
        threads = await (on_cpu or bench.trials)[0].lease.call(torch.get_num_threads)
        seconds = time.monotonic() - bench.began
    speeds = [await _compute(engine, partial(_speeds, found, others, measurement)) for found in runs]
    machine = await asyncio.to_thread(describe, list(leases), threads, meter.share)
    measured = tuple(
        ModelMeasures(resident, bench.working[index], nonzero, tuple(of_length[index] for of_length in speeds))
        for index, (resident, nonzero) in enumerate(held)
    )
    waited, refused = (sum(getattr(lease, name) for lease in leases.values()) for name in ("waited", "refused"))
    return Measured(measured, machine, waited, refused, seconds, bench.cut_short)


async def _compute(engine: Engine, work: Callable[[], T]) -> T:
    return await engine.compute(work, client="benchmark", priority=Priority.BULK)


@asynccontextmanager
async def _leased(
    models: Sequence[Subject], engine: Engine, measurement: Measurement, report: Report
) -> AsyncIterator[dict[torch.device, Lease]]:
    """Leases all devices of some models."""
    leases: dict[torch.device, Lease] = {}
    async with AsyncExitStack() as stack:
        for device in sorted({model.encoder.device for model in models}, key=str):
            report(f"waiting for {device}", 0.0)
            leases[device] = await stack.enter_async_context(engine.lease(device, refuse=measurement.refuse))
            leases[device].expect(measurement.max_seconds)
        try:
            yield leases
        except Exception as error:
            if not out_of_memory(error):
                raise
            message = "a model does not fit into its device's memory with the smallest batch; use smaller batches or lengths"
            raise Overloaded(message, "DEVICE_MEMORY", 5.0) from None


async def _weights(trial: Trial) -> tuple[int, int | None]:
    """Returns the bytes of a model's weights, and the number of nonzero ones, if it knows."""
    encoder = trial.encoder
    resident = await trial.lease.call(lambda: encoder.resident_bytes)
    return resident, await trial.lease.call(encoder.nonzero_parameters) if isinstance(encoder, Countable) else None


def _speeds(runs: Runs, compared: Sequence[int], measurement: Measurement) -> list[Speed]:
    """Computes the speeds of all models on one kind of input."""
    bootstrap = measurement.bootstrap
    single = [Timings.of(rounds) for rounds in runs.single]
    offline = [Timings.of(rounds) for rounds in runs.offline.times]
    found = []
    for index, (one, many) in enumerate(zip(single, offline, strict=True)):
        latency, throughput, baseline = None, None, compared[index]
        if index != baseline:
            latency = ratio_of_medians(single[baseline], one, bootstrap)
            throughput = _throughput_ratio(runs.offline, offline, index, baseline, measurement)
        found.append(
            Speed(
                runs.inputs.length,
                tuple(one.percentiles(PERCENTILES)),
                len(one.seconds),
                runs.offline.best[index],
                _throughput(runs.offline, many, index),
                len(many.seconds),
                latency,
                throughput,
            )
        )
    return found


def _throughput(offline: Offline, times: Timings, index: int) -> float:
    """Returns a model's sequences per second: by its median batch if all are of one length, else over all texts together."""
    if not offline.texts:
        return offline.best[index] / times.median
    return sum(offline.texts) / float(_per_round(offline, index).sum())


def _throughput_ratio(
    offline: Offline, times: Sequence[Timings], index: int, baseline: int, measurement: Measurement
) -> Ratio | None:
    if offline.texts:
        return ratio_of_means(_per_round(offline, baseline), _per_round(offline, index), measurement.bootstrap)
    factor = offline.best[index] / offline.best[baseline]
    return ratio_of_medians(times[baseline], times[index], measurement.bootstrap, factor)


def _per_round(offline: Offline, index: int) -> NDArray[np.float64]:
    """Returns the seconds of a model for the texts of each round, once [rounds]."""
    return np.array([times.sum() for times in offline.times[index]]) / offline.repeats[index]
