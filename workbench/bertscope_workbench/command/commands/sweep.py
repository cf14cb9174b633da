"""Change heads one after another, and see what each is worth; or layers, or sets of heads.

Reads what to measure from one FILE. Ctrl-C ends the sweep on the server, too; what has come by then is shown and written,
and --resume measures the rest.

Examples:

  bertscope sweep --prompts examples/capitals.tsv --mode uniform --plot heat.png
  bertscope sweep --prompts examples/capitals.tsv --greedy importance --step 12 --plot curve.png
"""

from functools import partial
from pathlib import Path
from typing import Literal

from bertscope import Greedy, Metric, Order, SweepTable

from bertscope_workbench.command import options
from bertscope_workbench.command.groups import offered, option
from bertscope_workbench.command.options import specifications
from bertscope_workbench.command.options.going_on import KeptFile, until_ended
from bertscope_workbench.command.options.interventions import InterventionOptions
from bertscope_workbench.command.options.looks import LOOKS
from bertscope_workbench.command.options.objectives import ObjectiveOptions
from bertscope_workbench.command.options.results import OutputOptions
from bertscope_workbench.command.options.server import ServerOptions
from bertscope_workbench.command.views import files as output_files
from bertscope_workbench.command.views import sweep as sweep_view
from bertscope_workbench.command.views import sweep_files
from bertscope_workbench.command.views.output import UsageError, print_failure
from bertscope_workbench.command.views.progress import waiting, watch
from bertscope_workbench.plots.sweeps import save_sweep


def sweep(
    *,
    server: ServerOptions,
    objective: ObjectiveOptions,
    base: InterventionOptions,
    mode: Literal["zero", "uniform", "mean", "scale"] = option("--mode", "What changed heads contribute.", default="zero"),
    factor: float | None = option("--factor F", "With --mode scale: what they count."),
    scope: Literal["heads", "layers"] | None = option("--scope", "What is changed at once; heads unless set."),
    sets: list[dict[int, list[int] | None]] | None = option(
        "--set L:H,H[+L:H]",
        "Change these heads at once instead: 3:1,4+5:0. Repeatable.",
        reads=specifications.head_set,
        joins=list,
        without="scope",
    ),
    greedy: Order | None = option(
        "--greedy", "Remove one after another, in this order, and draw the curve.", dashed=True, field="greedy.order"
    ),
    step: int | None = option("--step", "With --greedy: how many between two points.", min=1, needs="greedy"),
    max_removed: int | None = option("--max-removed", "With --greedy: how many at the end.", min=1, needs="greedy"),
    metric: Metric | None = option("--metric", "The metric to show, and to remove by; the first one unless set.", dashed=True),
    resamples: int | None = option("--resamples", "Of the intervals; 1000 unless set.", min=100),
    confidence: float | None = option("--confidence", "Of the intervals; 0.95 unless set."),
    memory: options.Memory = None,
    top: int = option("--top N", "Rows to show: what helps and what hurts most.", default=14, min=0),
    drawn: OutputOptions = offered(*LOOKS),
    output: Path | None = option("--output FILE", "Write every effect: .tsv, .csv, .jsonl, .tex, or all as .json."),
    resume: Path | None = option("--resume FILE", "Go on from a sweep that was cut short: its .json."),
    call: options.LongCallOptions = offered("model", "timeout", "json"),
) -> None:
    output_files.require_output(output, sweep_files.OUTPUT_FORMATS)
    curve = None if greedy is None else Greedy(greedy, step=step or 1, max_removed=max_removed, metric=metric)
    earlier = None if resume is None else sweep_files.read_partial(resume, SweepTable)
    kept: KeptFile[SweepTable] = KeptFile(sweep_files.kept_path(output), lambda table, path: table.save(path))
    with (
        objective.lines_named(),
        sweep_files.resumption_named(),
        server.connect(call.timeout) as client,
        client.sweep_heads(
            objective.objective(),
            model=call.model,
            mode=mode,
            factor=factor,
            scope=scope,
            sets=sets,
            **base.arguments(),
            resamples=resamples,
            seed=objective.seed,
            confidence=confidence,
            memory_bytes=memory,
            greedy=curve,
            start_from=earlier,
            timeout=call.timeout,
        ) as running,
    ):
        with waiting("measuring the baseline"):
            measured = running.start.baseline
        if metric is not None and metric not in measured:
            raise UsageError(f"--metric {metric.replace('_', '-')}: this sweep measures {', '.join(measured)}")
        for line in sweep_view.hard_to_show(running.start, metric):
            print_failure(line)
        found, stopped = until_ended(lambda came: watch(running, earlier, came), running.partial, kept)
        if stopped is not None and found.count == (earlier.count if earlier else 0):
            raise stopped
    show = partial(sweep_view.print_sweep, metric=found.metric(metric), top=top)
    save = partial(save_sweep, found, metric=metric)
    sweep_files.finish(found, show, save, drawn, output, kept, stopped, json=call.json)
