"""Replies of BenchmarkService as a server would send them, and as the client reads them, with numbers that are easy to
recognise."""

from bertscope import BenchmarkReport, StudyTable
from bertscope.questions.benchmark import messages as replies
from bertscope.questions.benchmark.messages import StudiesAssembler
from bertscope.v1 import ablation_pb2, benchmark_pb2, common_pb2, compression_pb2

LENGTHS = (32, 128)
MACHINE = benchmark_pb2.Machine(
    cpu="A fine CPU",
    cores=2,
    cpu_flags=["avx512f", "avx512_vnni"],
    threads=1,
    memory_bytes=16_000_000_000,
    system="Linux 6",
    other_load=0.031,
)


def ratio(value: float, margin: float = 0.05, caveat: str = "") -> benchmark_pb2.Ratio:
    """A ratio whose interval is a share of it on each side."""
    low, high = value * (1 - margin), value * (1 + margin)
    verdicts = benchmark_pb2.Ratio
    above, below = verdicts.VERDICT_ABOVE, verdicts.VERDICT_BELOW
    verdict = above if low > 1 else below if high < 1 else verdicts.VERDICT_NOT_DISTINGUISHABLE
    return benchmark_pb2.Ratio(value=value, low=low, high=high, verdict=verdict, caveat=caveat)


def speed(length: int, speedup: float | None, caveat: str = "") -> benchmark_pb2.Speed:
    """Speed at one length; that of the baseline without a speed-up.

    A token takes a tenth of a millisecond there, a given text as long as 64 of them.
    """
    median = (length or 64) / 10_000 / (speedup or 1)
    ratios = {}
    if speedup is not None:
        ratios = {"latency_speedup": ratio(speedup, caveat=caveat), "throughput_speedup": ratio(2 * speedup, caveat=caveat)}
    return benchmark_pb2.Speed(
        length=length,
        p50_seconds=median,
        p90_seconds=1.1 * median,
        p95_seconds=1.2 * median,
        p99_seconds=1.5 * median,
        runs=40,
        best_batch=8,
        throughput=2 / median,
        batches=12,
        **ratios,
    )


def model(
    name: str,
    speedup: float | None = None,
    *,
    kept: float = 1,
    parameters: int = 100_000_000,
    compression: float = 1,
    precision: int = common_pb2.PRECISION_FLOAT32,
    runtime: int = common_pb2.RUNTIME_TORCH,
    agreement: bool = True,
    vectors: bool = False,
    cosine: float | None = 0.97,
    scores: bool = True,
    lengths: tuple[int, ...] = LENGTHS,
    steps: tuple[str, ...] = (),
    caveat: str = "",
    loaded_runtime: int | None = None,
) -> benchmark_pb2.ModelReport:
    """A model that is so much faster than the baseline, and keeps so much; the baseline itself without a speed-up. `vectors`
    are compared in place of predictions."""
    found = benchmark_pb2.ModelReport(
        provenance=common_pb2.Provenance(
            model=f"models/{name}",
            weights_digest="sha256:" + "0" * 64,
            runtime=runtime,
            device="cpu",
            precision=precision,
            library_versions={"torch": "2.15.0"},
            numbering=common_pb2.NUMBERING_ZERO_BASED,
        ),
        parameters=parameters,
        weight_bytes=round(400_000_000 / compression),
        resident_bytes=round(400_000_000 / compression),
        working_bytes=20_000_000,
        compression=compression,
        size_ratio=compression,
        speeds=[speed(length, speedup, caveat) for length in lengths],
        steps=[compression_pb2.AppliedStep(step=step, description=f"did {step}", numbers={"bits": 8}) for step in steps],
    )
    found.loaded_runtime = runtime if loaded_runtime is None else loaded_runtime
    found.loaded_precision = precision
    found.copied = found.loaded_runtime != runtime
    if vectors and speedup is not None:
        ends = {} if cosine is None else {"cosine": cosine, "cosine_low": cosine - 0.01, "cosine_high": cosine + 0.01}
        found.vectors.CopyFrom(
            benchmark_pb2.VectorAgreement(
                **ends,
                neighbours=kept,
                neighbours_low=kept - 0.1,
                neighbours_high=1,
                k=5,
                rank_correlation=kept / 2,
                rank_correlation_low=kept / 4,
                rank_correlation_high=kept,
                texts=40,
            )
        )
    elif agreement and speedup is not None:
        found.agreement.CopyFrom(
            benchmark_pb2.Agreement(
                top_1=kept, top_k=kept / 2, k=5, divergence=1 - kept, divergence_low=0, divergence_high=1, places=120
            )
        )
    if scores:
        retained = None if speedup is None else ratio(kept, 0.02)
        metrics = {ablation_pb2.METRIC_ACCURACY: 0.8 * kept, ablation_pb2.METRIC_LOSS: 2 / kept}
        found.scores.extend(benchmark_pb2.Score(metric=m, value=value, retained=retained) for m, value in metrics.items())
    return found


def report(*models: benchmark_pb2.ModelReport, **fields: object) -> benchmark_pb2.BenchmarkReport:
    """A report whose baseline is the first model."""
    return benchmark_pb2.BenchmarkReport(
        machine=MACHINE,
        baseline=models[0].provenance.model,
        models=models,
        disturbances=benchmark_pb2.Disturbances(waited=3, refused=1),
        seconds=12.5,
        **fields,
    )


def study(system: str, measured: float | None = None, *, why: str = "", **published: str) -> benchmark_pb2.StudyRow:
    """A system that was measured to be so much faster, or was not measured and why."""
    row = benchmark_pb2.StudyRow(
        published=benchmark_pb2.Published(
            system=system, technique="distillation", performance="97", relative_to="BERT-base", evaluated_on="GLUE", **published
        ),
        not_measured=why,
    )
    if not why:
        row.built, row.baseline = "bert, 6 layers x 768", "BERT-base"
        row.measured.CopyFrom(model(system, measured, compression=1.65, agreement=False, scores=False))
        row.baseline_measured.CopyFrom(model("BERT-base", agreement=False, scores=False))
    return row


def summary() -> benchmark_pb2.StudiesSummary:
    """The end of a benchmark of studies."""
    return benchmark_pb2.StudiesSummary(machine=MACHINE, disturbances=benchmark_pb2.Disturbances(), seconds=99)


def read_report(*models: benchmark_pb2.ModelReport, **fields: object) -> BenchmarkReport:
    message = benchmark_pb2.BenchmarkModelsResponse(report=report(*models, **fields))
    return replies.benchmark_event(message)


def read_studies(*rows: benchmark_pb2.StudyRow) -> StudyTable:
    assembler = StudiesAssembler(None)
    for row in rows:
        assembler.add(benchmark_pb2.BenchmarkStudiesResponse(row=row))
    assembler.add(benchmark_pb2.BenchmarkStudiesResponse(summary=summary()))
    return assembler.end()
