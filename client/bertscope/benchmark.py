"""What `benchmark_models` gives back: how fast models are, how large, and what they lost, as frozen dataclasses.

Times are seconds, sizes bytes, shares 0 to 1. A ratio over 1 is for the better: smaller, faster, better than the baseline.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bertscope import _benchmark_rows, _tables
from bertscope.compression import AppliedStep
from bertscope.results import Provenance

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class BenchmarkProgress:
    """How far a benchmark is."""

    stage: str
    """What is done now, in words: "warming up", "latency at 32 tokens"."""
    done: float
    """Part of the whole that is done, 0 to 1."""


@dataclass(frozen=True)
class Machine:
    """The machine that measured."""

    cpu: str
    """Model of the processor, as the system names it."""
    cores: int
    """Physical cores that the server may use."""
    cpu_flags: tuple[str, ...]
    """Instruction sets that matter and are there: "avx512f", "avx512_vnni", "amx_int8"."""
    gpus: tuple[str, ...]
    """Names of the GPUs that were used."""
    threads: int
    """CPU threads that a batch runs on."""
    memory_bytes: int
    """Memory of the machine."""
    system: str
    """The operating system."""
    other_load: float
    """Share of the processor that other processes took while speed was measured, 0 to 1."""


@dataclass(frozen=True)
class Ratio:
    """A ratio of two medians or means, with a bootstrap interval."""

    value: float
    """The ratio, over 0."""
    low: float
    """Lower end of the interval."""
    high: float
    """Upper end of the interval."""
    verdict: str
    """"above" or "below", if the whole interval lies on that side of 1; else "not_distinguishable"."""

    @property
    def distinguishable(self) -> bool:
        """True if the interval excludes 1: there is a difference."""
        return self.verdict in ("above", "below")


@dataclass(frozen=True)
class Speed:
    """Speed of one model at one length."""

    length: int
    """Tokens of each sequence; 0 for given texts."""
    p50_seconds: float
    """One sequence at a time (MLPerf's single-stream): the median over all runs."""
    p90_seconds: float
    """As p50_seconds."""
    p95_seconds: float
    """As p50_seconds."""
    p99_seconds: float
    """As p50_seconds."""
    runs: int
    """Runs that were measured."""
    best_batch: int
    """Sequences in a batch where throughput is best."""
    throughput: float
    """Sequences per second in such batches (MLPerf's offline), the median."""
    batches: int
    """Batches that were measured."""
    latency_speedup: Ratio | None
    """Median latency of the baseline / that of this model; None for the baseline."""
    throughput_speedup: Ratio | None
    """Throughput of this model / that of the baseline, each at its best batch; None for the baseline."""


@dataclass(frozen=True)
class Agreement:
    """How far predictions moved from the baseline's."""

    top_1: float
    """Share of places where the likeliest prediction is the same."""
    top_k: float
    """Mean share of the baseline's k likeliest predictions that are among this model's."""
    k: int
    """The k."""
    divergence: float
    """Mean KL(baseline || model), nats."""
    divergence_low: float
    """Lower end of the interval of the divergence."""
    divergence_high: float
    """Upper end of the interval."""
    places: int
    """Masks (or texts, for classifiers) that were compared."""


@dataclass(frozen=True)
class Score:
    """One metric of one model."""

    metric: str
    """"loss" (nats), "accuracy" or "reciprocal_rank" (0 to 1)."""
    value: float
    """Its mean over the items."""
    retained: Ratio | None
    """value / the baseline's value (of a loss the other way round); None for the baseline, and where both are 0."""


@dataclass(frozen=True)
class ModelReport:
    """What was measured of one model."""

    provenance: Provenance
    """Which model, and how it ran."""
    parameters: int
    """Number of parameters."""
    nonzero_parameters: int | None
    """Those that are not zero; None where it is not known."""
    weight_bytes: int
    """Size of the weight files."""
    resident_bytes: int
    """Memory that the weights take while it is loaded."""
    working_bytes: int
    """Most working memory on top while it was measured."""
    compression: float
    """weight_bytes of the baseline / of this model."""
    speeds: tuple[Speed, ...]
    """One for each length, in the order of the request."""
    agreement: Agreement | None
    """None for the baseline, and without agreement texts."""
    scores: tuple[Score, ...]
    """In the objective's order; empty without one."""
    steps: tuple[AppliedStep, ...]
    """What had been done to the model, as `Model.compression`."""

    @property
    def name(self) -> str:
        """Resource name, "models/{id}"."""
        return self.provenance.model

    @property
    def memory_bytes(self) -> int:
        """Peak memory: the weights and the most working memory on top."""
        return self.resident_bytes + self.working_bytes

    def speed(self, length: int) -> Speed:
        """The speed at one length, 0 for given texts. Raises KeyError for one that was not measured."""
        for speed in self.speeds:
            if speed.length == length:
                return speed
        raise KeyError(
            f"{length} tokens are not among what was measured: {', '.join(str(each.length) for each in self.speeds)}"
        )


@dataclass(frozen=True)
class Disturbances:
    """Calls that came while the devices were taken."""

    waited: int
    """Calls that waited."""
    refused: int
    """Calls that were refused."""


@dataclass(frozen=True, repr=False)
class BenchmarkReport:
    """What a benchmark found."""

    machine: Machine
    """The machine."""
    baseline: str
    """Resource name of the baseline."""
    models: tuple[ModelReport, ...]
    """The models, in the order of the request."""
    disturbances: Disturbances
    """Who else wanted the devices."""
    seconds: float
    """How long it took."""
    cut_short: bool
    """True if `max_seconds` ended it before every model had its runs and time."""

    def __repr__(self) -> str:
        # One line: a notebook shows what a cell ends with, and the fields fill pages.
        names = ", ".join(model.name for model in self.models)
        return f"<BenchmarkReport: {names}; baseline {self.baseline}, {self.machine.cpu}, {self.seconds:.4g} s>"

    def model(self, name: str) -> ModelReport:
        """The report of one model, "models/x" or "x". Raises KeyError for one that was not measured."""
        for model in self.models:
            if model.name.removeprefix("models/") == name.removeprefix("models/"):
                return model
        raise KeyError(f"{name} is not among the models of the report: {', '.join(each.name for each in self.models)}")

    @property
    def lengths(self) -> tuple[int, ...]:
        """The lengths that were measured; 0 for given texts."""
        return tuple(dict.fromkeys(speed.length for model in self.models for speed in model.speeds))

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that the models were scored by."""
        return tuple(dict.fromkeys(score.metric for model in self.models for score in model.scores))

    def rows(self) -> list[Mapping[str, Any]]:
        """A row for each model and length; the columns are those of `to_pandas`, None where there is nothing."""
        return _benchmark_rows.report_rows(self)

    def to_pandas(self) -> pd.DataFrame:
        """A row for each model and length: model, baseline, runtime, device, precision, sizes and compression, speed and
        its ratios (value, low, high, verdict), agreement, and each metric with the share that was kept.
        Needs the extra "pandas"."""
        return _tables.rows(self.rows())
