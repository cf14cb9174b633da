"""Defines the report of `benchmark_models`: speed, size and losses of models, as frozen dataclasses.

Times are seconds, sizes bytes, shares 0 to 1. A ratio over 1 is for the better: smaller, faster, better than the baseline.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bertscope.questions.ablation.sweeps import Bootstrap
from bertscope.questions.benchmark import rows
from bertscope.values.display import data_frame, record, table_html
from bertscope.values.results import AppliedStep, Provenance

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "Agreement",
    "BenchmarkProgress",
    "BenchmarkReport",
    "Disturbances",
    "Machine",
    "ModelReport",
    "Ratio",
    "Score",
    "Speed",
]


@record
class BenchmarkProgress:
    """The progress of a benchmark."""

    stage: str
    """The current stage in words: "warming up", "latency at 32 tokens"."""
    done: float
    """Share of the work that is done, 0 to 1."""


@record
class Machine:
    """The machine that measured."""

    cpu: str
    """Model of the processor, as the system names it."""
    cores: int
    """Physical cores that the server may use."""
    cpu_flags: tuple[str, ...]
    """Available instruction sets for matrix products: "avx512f", "avx512_vnni", "amx_int8"."""
    gpus: tuple[str, ...]
    """Names of the GPUs used."""
    threads: int
    """CPU threads of a batch."""
    memory_bytes: int
    """Memory of the machine."""
    system: str
    """The operating system."""
    other_load: float
    """Share of the processor that other processes took while speed was measured, 0 to 1."""


@record
class Ratio:
    """A ratio of two medians or means, with an interval, which covers the noise of the measurement only."""

    value: float
    """The ratio, over 0."""
    low: float
    """Lower end of the interval; 0 where `no_interval` says why there is none."""
    high: float
    """Upper end of the interval; infinite where there is none."""
    verdict: str
    """"above" or "below", if the whole interval lies on that side of 1; else "not_distinguishable"."""
    caveat: str = ""
    """The difference besides the models: "other runtime", "other precision", "other device"; empty if there is none."""
    interval_method: str | None = None
    """"expanded_percentile" of medians, "studentized_bootstrap" of means, "hybrid_wilson" of accuracies; None without an
    interval, and from a server that does not send it."""
    no_interval: str | None = None
    """Why there is none: "too_few_items", "too_few_differ", "too_few_resamples" or "mean_not_positive"."""

    @property
    def distinguishable(self) -> bool:
        """True if the interval excludes 1: there is a difference."""
        return self.verdict in ("above", "below")


@record
class Speed:
    """Speed of one model at one length."""

    length: int
    """Tokens of each sequence; 0 for given texts."""
    p50_seconds: float
    """One sequence at a time (MLPerf's single-stream): the median over all runs."""
    p90_seconds: float
    """90th percentile, as p50_seconds."""
    p95_seconds: float
    """95th percentile, as p50_seconds."""
    p99_seconds: float
    """99th percentile, as p50_seconds."""
    runs: int
    """Number of measured runs."""
    best_batch: int
    """Sequences in the batch with the best throughput."""
    throughput: float
    """Sequences per second in such batches (MLPerf's offline), the median."""
    batches: int
    """Number of measured batches."""
    latency_speedup: Ratio | None
    """Median latency of the baseline / that of this model; None for the baseline."""
    throughput_speedup: Ratio | None
    """Throughput of this model / that of the baseline, each at its best batch; None for the baseline."""


@record
class Agreement:
    """The difference of predictions from the baseline's."""

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
    """Number of masks (or texts, for classifiers) compared."""


@record
class Score:
    """One metric of one model."""

    metric: str
    """"loss" (nats), "accuracy", "reciprocal_rank", "token_accuracy", "entity_f1", "answer_f1", "label_f1" (0 to 1),
    "pearson", "spearman" (-1 to 1) or "squared_error"."""
    value: float
    """The mean over the items."""
    retained: Ratio | None
    """value / the baseline's value (of a loss the other way round); None for the baseline, and where both are 0."""


@record
class ModelReport:
    """The measurements of one model."""

    provenance: Provenance
    """The model, and how it ran."""
    parameters: int
    """Number of parameters."""
    nonzero_parameters: int | None
    """Number of parameters that are not zero; None if unknown."""
    weight_bytes: int
    """Size of the weight files."""
    resident_bytes: int
    """Memory of the weights while it is loaded."""
    working_bytes: int
    """Peak of additional working memory while it was measured."""
    compression: float
    """weight_bytes of the baseline / of this model."""
    speeds: tuple[Speed, ...]
    """One for each length, in the order of the request."""
    agreement: Agreement | None
    """None for the baseline, and without agreement texts."""
    scores: tuple[Score, ...]
    """In the objective's order; empty without one."""
    steps: tuple[AppliedStep, ...]
    """The steps applied to the model, as `Model.compression`."""
    compared_with: Provenance | None = None
    """The baseline, and how it ran; None for the baseline."""
    copied: bool = False
    """True if it ran as a copy that was made for this benchmark, not as it is loaded."""
    loaded_runtime: str = ""
    """The library that the model is loaded for."""
    loaded_precision: str = ""
    """The number format that the model is loaded in."""

    @property
    def name(self) -> str:
        """Resource name, "models/{id}"."""
        return self.provenance.model

    @property
    def memory_bytes(self) -> int:
        """Peak memory: the weights and the most working memory on top."""
        return self.resident_bytes + self.working_bytes

    def speed(self, length: int) -> Speed:
        """Returns the speed at one length, 0 for given texts. Raises KeyError for one that was not measured."""
        for speed in self.speeds:
            if speed.length == length:
                return speed
        raise KeyError(
            f"{length} tokens are not among what was measured: {', '.join(str(each.length) for each in self.speeds)}"
        )


@record
class Disturbances:
    """Calls that came while the devices were taken."""

    waited: int
    """Calls that waited."""
    refused: int
    """Calls that were rejected."""


@dataclass(frozen=True, repr=False)
class BenchmarkReport:
    """The result of a benchmark."""

    machine: Machine
    """The machine."""
    baseline: str
    """Resource name of the baseline."""
    models: tuple[ModelReport, ...]
    """The models, in the order of the request."""
    disturbances: Disturbances
    """Other calls for the devices."""
    seconds: float
    """Duration of the benchmark."""
    cut_short: bool
    """True if `max_seconds` ended it before every model had its runs and time."""
    references: tuple[ModelReport, ...] = ()
    """The baseline as it ran for models that can't run the same way, which `compared_with` names."""
    warnings: tuple[str, ...] = ()
    """Warnings to read before the figures, a sentence each: neighbours on the machine, libraries that differ."""
    bootstrap: Bootstrap | None = None
    """The server's parameters of intervals; None from a server that does not send them."""

    def __repr__(self) -> str:
        # One line: a notebook shows a cell's last value, and the fields fill pages.
        names = ", ".join(model.name for model in self.models)
        return f"<BenchmarkReport: {names}; baseline {self.baseline}, {self.machine.cpu}, {self.seconds:.4g} s>"

    def model(self, name: str) -> ModelReport:
        """Returns the report of one model, "models/x" or "x". Raises KeyError for one that was not measured."""
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
        """Returns a row for each model and length; the columns are those of `to_pandas`, None for missing values."""
        return rows.report_rows(self)

    def _repr_html_(self) -> str | None:
        return table_html(self)

    def to_pandas(self) -> pd.DataFrame:
        """Returns a row for each model and length: model, baseline, runtime, device, precision, sizes and compression, speed
        and its ratios (value, low, high, verdict), agreement, and each metric with the share that was kept. Needs the extra
        "pandas"."""
        return data_frame(self.rows())
