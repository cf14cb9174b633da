"""Measure models side by side: speed, size, and what they lost against a baseline.

Models take turns, and have the device to themselves. All run by one library, the baseline's unless --runtime or --as-loaded
says otherwise. A difference that its interval doesn't support is not distinguishable.

What they lost is measured on texts (--agreement), and on one FILE of prompts, pairs, labelled texts or texts (--loss).
Models that embed texts are compared by their vectors (--embed; without a head in any case).

With --studies, published compressed models are built as shapes with random weights, and measured beside BERT-base.

Ctrl-C ends the benchmark on the server, too.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from bertscope import BenchmarkReport, StudyTable

from bertscope_workbench.command import options
from bertscope_workbench.command.groups import option, refuse, values_of
from bertscope_workbench.command.options.benchmark import MeasuringOptions, ModelOptions, StudyOptions, texts, texts_named
from bertscope_workbench.command.options.looks import LookOptions
from bertscope_workbench.command.options.objectives import ScoreOptions
from bertscope_workbench.command.options.results import print_written
from bertscope_workbench.command.options.server import ServerOptions
from bertscope_workbench.command.views import benchmark_files, benchmark_shown, progress
from bertscope_workbench.command.views import files as output_files
from bertscope_workbench.command.views.output import UsageError, console, print_json
from bertscope_workbench.plots.benchmark import save_benchmark
from bertscope_workbench.plots.look import Look


def benchmark(
    server: ServerOptions,
    compared: ModelOptions,
    measuring: MeasuringOptions,
    score: ScoreOptions,
    studies: StudyOptions,
    looks: LookOptions,
    output: Annotated[
        list[Path] | None,
        option(
            "--output FILE",
            "Write it: .html as a page for a decision, .json, .tex, or rows as .csv, .tsv, .jsonl, .parquet. Repeatable.",
        ),
    ] = None,
    plot: Annotated[Path | None, option("--plot FILE", "Draw speed-up against quality: .png, .svg or .pdf.")] = None,
    timeout: options.LongTimeout = None,
    json: options.Json = False,
) -> None:
    for path in output or ():
        benchmark_files.require(path)
    output_files.require_plot(plot)
    looks.require_plot_for_look(plot)
    if studies.studies:
        loaded = values_of(compared, "models", "baseline", "agreement", "embed", "top_k", "as_loaded")
        scored = dict.fromkeys([*score.given, *score.extra], True)
        others = loaded | scored | values_of(measuring, "run_texts") | {"--plot": plot}
        refuse(others, "goes without --studies only")
        print_measured(measure_studies(studies, measuring, score.seed, server, timeout), output or (), json=json)
        return
    refuse(values_of(studies, "system", "heavy"), "goes with --studies only")
    compared.check()
    measuring.check()
    if score.extra and not score.given:
        raise UsageError(f"{score.extra[0]} goes with one of {', '.join(score.flags.values())}")
    if compared.as_loaded and measuring.runtime:
        raise UsageError("--runtime and --as-loaded exclude each other: the former runs all models by one library")
    if plot and not (compared.agreement or score.given):
        raise UsageError("--plot shows what models lost: give --agreement, or a file to score them on")
    if plot and len(set(compared.names())) < 2:
        raise UsageError("--plot shows models beside a baseline: name two or more with --model")
    print_measured(measure_models(compared, measuring, score, server, timeout), output or (), plot, looks.look, json=json)


def measure_models(
    compared: ModelOptions, measuring: MeasuringOptions, score: ScoreOptions, server: ServerOptions, timeout: float | None
) -> BenchmarkReport:
    """Measures loaded models, and shows the progress."""
    names = compared.names()
    with (
        score.lines_named(),
        texts_named(texts=measuring.run_texts, agreement_texts=compared.agreement),
        server.connect(timeout) as client,
        progress.benchmarking("benchmark") as show,
    ):
        return client.benchmark_models(
            names,
            baseline=compared.baseline,
            agreement_texts=None if compared.agreement is None else texts(compared.agreement),
            top_k=compared.top_k,
            objective=score.objective() if score.given else None,
            embed=compared.embed,
            as_loaded=compared.as_loaded,
            runtime=measuring.runtime,
            seed=score.seed,
            on_progress=show,
            timeout=timeout,
            texts=measuring.texts(),
            **measuring.arguments(),
        )


def measure_studies(
    studies: StudyOptions, measuring: MeasuringOptions, seed: int, server: ServerOptions, timeout: float | None
) -> StudyTable:
    """Measures published systems, and shows the progress."""
    with (
        texts_named(),
        server.connect(timeout) as client,
        progress.benchmarking("benchmark") as show,
        client.benchmark_studies(
            studies.system,
            heavy=studies.heavy,
            runtime=measuring.runtime,
            seed=seed,
            on_progress=show,
            timeout=timeout,
            **measuring.arguments(),
        ) as running,
    ):
        return running.table()


def print_measured(
    measured: BenchmarkReport | StudyTable,
    output: Sequence[Path],
    plot: Path | None = None,
    look: Look | None = None,
    *,
    json: bool,
) -> None:
    """Prints a benchmark, and writes the requested files, also when nobody reads what it prints."""
    try:
        if json:
            print_json(benchmark_files.document(measured))
        else:
            benchmark_shown.print_benchmark(console(), measured)
    finally:
        for path in output:
            benchmark_files.write(measured, path)
        if plot is not None and isinstance(measured, BenchmarkReport):
            output_files.draw(lambda path: save_benchmark(measured, path, **(look or {})), plot)
    if not json:
        print_written(console(), (*output, plot))
