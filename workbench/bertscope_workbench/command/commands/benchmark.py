"""Measure models side by side: speed, size, and what they lost against a baseline.

Models take turns, and have the device to themselves. All run by one library, the baseline's unless --runtime or --as-loaded
says otherwise. A difference that its interval doesn't support is not distinguishable.

What they lost is measured on texts (--agreement), and on one FILE of prompts, pairs, labelled texts or texts (--loss).
Models that embed texts are compared by their vectors (--embed; without a head in any case).

Ctrl-C ends the benchmark on the server, too.

Examples:

  bertscope benchmark --model bertscope-mini --model fast --agreement examples/sentences.txt
  bertscope benchmark --model bertscope-mini --model fast --loss examples/sentences.txt --output decision.html
"""

import datetime
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from bertscope import BenchmarkReport, StudyTable

from bertscope_workbench.command import options
from bertscope_workbench.command.checked_commands import modes
from bertscope_workbench.command.groups import flag, option
from bertscope_workbench.command.options.benchmark import MeasuringOptions, ModelOptions, texts, texts_named
from bertscope_workbench.command.options.looks import LookOptions
from bertscope_workbench.command.options.objectives import ScoreOptions, items_of
from bertscope_workbench.command.options.results import print_written
from bertscope_workbench.command.options.server import ServerOptions
from bertscope_workbench.command.views import benchmark_files, benchmark_shown, progress
from bertscope_workbench.command.views import files as output_files
from bertscope_workbench.command.views.benchmark_shown import Asked
from bertscope_workbench.command.views.output import UsageError, console, plural, print_json
from bertscope_workbench.plots.benchmark import save_benchmark
from bertscope_workbench.plots.look import Look

app = modes("benchmark", __doc__, studies="studies", system="studies --system NAME", heavy="studies --heavy")

Outputs = Annotated[
    list[Path] | None,
    option(
        "--output FILE",
        "Write it: .html as a page for a decision, .json, .tex, or rows as .csv, .tsv, .jsonl, .parquet. Repeatable.",
    ),
]


@app.command("models", help=__doc__)
def models(
    *,
    compared: ModelOptions,
    score: ScoreOptions,
    measuring: MeasuringOptions,
    output: Outputs = None,
    plot: Path | None = option("--plot FILE", "Draw speed-up against quality: .png, .svg or .pdf."),
    looks: LookOptions,
    timeout: options.LongTimeout = None,
    json: options.Json = False,
    server: ServerOptions,
) -> None:
    for path in output or ():
        benchmark_files.require(path)
    output_files.require_plot(plot)
    names = compared.names()
    if plot and not (compared.agreement or score.given):
        raise UsageError("--plot shows what models lost: give --agreement, or a file to score them on")
    if plot and len(set(names)) < 2:
        raise UsageError("--plot shows models beside a baseline: name two or more with --model")
    objective, compared_on = score.objective() if score.given else None, texts(compared.agreement)
    with (
        score.lines_named(),
        texts_named(texts=compared.run_texts, agreement_texts=compared.agreement),
        server.connect(timeout) as client,
        progress.benchmarking("benchmark") as show,
    ):
        measured = client.benchmark_models(
            names,
            baseline=compared.baseline,
            agreement_texts=compared_on,
            top_k=compared.top_k,
            objective=objective,
            embed=compared.embed,
            as_loaded=compared.as_loaded,
            seed=score.seed,
            on_progress=show,
            timeout=timeout,
            texts=texts(compared.run_texts),
            **measuring.arguments(),
        )
    items = None if objective is None else items_of(objective)
    files = [] if items is None else [f"{plural(items, 'item')} of {score.file.name}"]
    if compared.agreement is not None and compared_on is not None:
        files.append(f"{plural(len(compared_on), 'text')} of {compared.agreement.name}")
    print_measured(measured, output or (), plot, looks.look, asked=asked_now(files, items), json=json)


@app.command("studies")
def studies(
    *,
    system: list[str] | None = option("--system NAME", "Measure this one alone. Repeatable."),
    heavy: bool = flag("--heavy", "Also those of BERT-large size."),
    measuring: MeasuringOptions,
    seed: int = option("--seed", "Of the intervals.", default=0, min=0),
    output: Outputs = None,
    timeout: options.LongTimeout = None,
    json: options.Json = False,
    server: ServerOptions,
) -> None:
    """Measure published compressed models, built as shapes with random weights, beside BERT-base and what was published.

    Example:

      bertscope benchmark studies --batch-size 1 --output studies.html
    """
    for path in output or ():
        benchmark_files.require(path)
    with (
        texts_named(),
        server.connect(timeout) as client,
        progress.benchmarking("benchmark") as show,
        client.benchmark_studies(
            system,
            heavy=heavy,
            seed=seed,
            on_progress=show,
            timeout=timeout,
            **measuring.arguments(),
        ) as running,
    ):
        measured = running.table()
    print_measured(measured, output or (), asked=asked_now(), json=json)


def asked_now(files: Sequence[str] = (), items: int | None = None) -> Asked:
    """Returns what was asked for, by this process's command line, today."""
    today = datetime.date.today()
    return Asked(shlex.join(["bertscope", *sys.argv[1:]]), f"{today.day} {today:%B %Y}", files, items)


def print_measured(
    measured: BenchmarkReport | StudyTable,
    output: Sequence[Path],
    plot: Path | None = None,
    look: Look | None = None,
    *,
    asked: Asked,
    json: bool,
) -> None:
    """Prints a benchmark, and writes the requested files, also when nobody reads what it prints."""
    try:
        if json:
            print_json(benchmark_files.document(measured, asked))
        else:
            benchmark_shown.print_benchmark(console(), measured, asked)
    finally:
        for path in output:
            benchmark_files.write(measured, path, asked)
        if plot is not None and isinstance(measured, BenchmarkReport):
            output_files.draw(lambda path: save_benchmark(measured, path, **(look or {})), plot)
    if not json:
        print_written(console(), (*output, plot))
