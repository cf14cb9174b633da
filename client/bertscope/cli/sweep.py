"""`bertscope sweep`: change heads one after another, and see what it does."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from bertscope.cli import options, output_files, specifications, sweep_files, sweep_view
from bertscope.cli.intervention_options import InterventionOptions
from bertscope.cli.objective_options import ObjectiveOptions
from bertscope.cli.option_groups import grouped
from bertscope.cli.output import UsageError, console, print_json
from bertscope.cli.progress import waiting, watch
from bertscope.cli.server_options import ServerOptions
from bertscope.objectives import Greedy, Order
from bertscope.sweep_plots import save_sweep

ORDERS: dict[str, Order] = {"effect": "effect", "importance": "importance", "best-remaining": "best_remaining"}


@grouped
def sweep(
    server: ServerOptions,
    objective: ObjectiveOptions,
    base: InterventionOptions,
    mode: Annotated[
        Literal["zero", "uniform", "mean", "scale"], typer.Option("--mode", help="What changed heads contribute.")
    ] = "zero",
    factor: Annotated[float | None, typer.Option("--factor", metavar="F", help="With --mode scale: what they count.")] = None,
    scope: Annotated[
        Literal["heads", "layers"] | None, typer.Option("--scope", help="What is changed at once; heads unless set.")
    ] = None,
    sets: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="L:H,H[+L:H]", help="Change these heads at once instead: 3:1,4+5:0. Repeatable."),
    ] = None,
    greedy: Annotated[
        Literal["effect", "importance", "best-remaining"] | None,
        typer.Option("--greedy", help="Remove one after another, in this order, and draw the curve."),
    ] = None,
    step: Annotated[int | None, typer.Option("--step", min=1, help="With --greedy: how many between two points.")] = None,
    max_removed: Annotated[int | None, typer.Option("--max-removed", min=1, help="With --greedy: how many at the end.")] = None,
    metric: Annotated[
        Literal["loss", "accuracy", "reciprocal-rank", "divergence"] | None,
        typer.Option("--metric", help="The metric to show, and to remove by; the first one unless set."),
    ] = None,
    resamples: Annotated[int | None, typer.Option("--resamples", min=100, help="Of the intervals; 1000 unless set.")] = None,
    confidence: Annotated[float | None, typer.Option("--confidence", help="Of the intervals; 0.95 unless set.")] = None,
    memory: Annotated[
        str | None, typer.Option("--memory", metavar="SIZE", help="Most that the server may keep to share work: 256MiB.")
    ] = None,
    top: Annotated[int, typer.Option("--top", min=0, metavar="N", help="Rows to show: what helps and what hurts most.")] = 14,
    plot: Annotated[Path | None, typer.Option("--plot", metavar="FILE", help="Draw it: .png, .svg or .pdf.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", metavar="FILE", help="Write every effect: .tsv, .csv or .jsonl.")
    ] = None,
    model: options.ModelName = None,
    timeout: options.LongTimeout = None,
    json: options.Json = False,
) -> None:
    """Change heads (or layers, or sets of heads) one after another, and see what each is worth.

    Reads what to measure from one FILE. Ctrl-C ends the sweep on the server, too.
    """
    if sets and scope:
        raise UsageError("--set and --scope exclude each other")
    if greedy is None and (step or max_removed):
        raise UsageError("--step and --max-removed go with --greedy")
    output_files.require_plot(plot)
    output_files.require_output(output, sweep_files.OUTPUT_FORMATS)
    name = None if metric is None else metric.replace("-", "_")
    curve = None if greedy is None else Greedy(ORDERS[greedy], step=step or 1, max_removed=max_removed, metric=name)
    with (
        objective.lines_named(),
        server.connect(timeout) as client,
        client.sweep_heads(
            objective.objective(),
            model=model,
            mode=mode,
            factor=factor,
            scope=scope,
            sets=[specifications.head_set("--set", value) for value in sets] if sets else None,
            reference_texts=base.reference_texts(),
            interventions=base.interventions(),
            resamples=resamples,
            seed=objective.seed,
            confidence=confidence,
            memory_bytes=None if memory is None else specifications.byte_count("--memory", memory),
            greedy=curve,
            timeout=timeout,
        ) as running,
    ):
        with waiting("measuring the baseline"):
            measured = running.start.baseline
        if name is not None and name not in measured:
            raise UsageError(f"--metric {metric}: this sweep measures {', '.join(measured)}")
        found = watch(running)
    if json:
        print_json(sweep_files.document(found))
    else:
        sweep_view.print_sweep(console(), found, found.metric(name), top)
    if output is not None:
        sweep_files.write_effects(found, output)
    if plot is not None:
        output_files.draw(lambda path: save_sweep(found, path, name), plot)
    if not json:
        for path in filter(None, (output, plot)):
            console().print(f"wrote {path}", soft_wrap=True)
