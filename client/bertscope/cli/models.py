"""`bertscope models list|show|load|unload`."""

import dataclasses
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, SpinnerColumn, TextColumn
from rich.table import Table

from bertscope.ablation import heads_name
from bertscope.cli import options
from bertscope.cli.option_groups import grouped
from bertscope.cli.output import console, count, fits, print_json, printable, table
from bertscope.cli.server_options import ServerOptions
from bertscope.results import LoadProgress, Model

COLUMNS = ("model", "architecture", "parameters#", "tokens#", "runs on", "weights#", "answers")
"""Of a table of models; what does not fit the screen is left out from the right."""
NARROW_COLUMNS = 5
WIDE = 120
"""Characters from which on a table of models has more than the narrow columns."""
MAX_LABELS = 8
"""Labels named in a list of models; `show` names all."""

app = typer.Typer(help="List, show, load and unload the models of a server.")


@app.callback(invoke_without_command=True)
def models(context: typer.Context) -> None:
    """List, show, load and unload the models of a server."""
    if context.invoked_subcommand is None:
        sys.stdout.write(context.get_help() + "\n")


@app.command("list")
@grouped
def list_models(server: ServerOptions, timeout: options.Timeout = options.TIMEOUT, json: options.Json = False) -> None:
    """List the loaded models, the default model first."""
    with server.connect(timeout) as client:
        found = client.list_models()
    if json:
        print_json({"models": [document(model) for model in found]})
    else:
        print_models(console(), found)


@app.command("show")
@grouped
def show(
    server: ServerOptions,
    model: Annotated[str | None, typer.Argument(metavar="[MODEL]", help="The model; the default model unless given.")] = None,
    timeout: options.Timeout = options.TIMEOUT,
    json: options.Json = False,
) -> None:
    """Show all that is known of one model, its labels and pruned heads among it."""
    with server.connect(timeout) as client:
        found = client.get_model(model)
    if json:
        print_json(document(found))
    else:
        console().print(model_table(found))


@app.command("load")
@grouped
def load(
    server: ServerOptions,
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="A hub id, or a folder or .onnx file on the server.")],
    name: Annotated[
        str | None, typer.Option("--name", help="The id that the model gets; the last part of SOURCE unless set.")
    ] = None,
    device: Annotated[str | None, typer.Option("--device", help='"auto", "cpu" or "cuda:N".')] = None,
    precision: Annotated[str | None, typer.Option("--precision", help="fp32, bf16 or fp16.")] = None,
    revision: Annotated[str | None, typer.Option("--revision", help="Branch, tag or commit of a hub id.")] = None,
    runtime: Annotated[
        Literal["auto", "torch", "onnx"] | None,
        typer.Option("--runtime", help="The library that runs it; auto takes the faster one."),
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Put it in the place of a model of that name, which answers until then.")
    ] = False,
    timeout: Annotated[
        float | None, typer.Option("--timeout", min=0.001, metavar="SECONDS", help="How long the load may take.")
    ] = None,
    json: options.Json = False,
) -> None:
    """Load a model, and wait until it is ready."""
    with server.connect(timeout) as client, progress_bar() as show:
        model = client.load_model(
            name,
            source=source,
            device=device,
            precision=precision,
            revision=revision,
            runtime=runtime,
            replace=replace,
            on_progress=show,
            timeout=timeout,
        )
    if json:
        print_json(document(model))
    else:
        print_models(console(), [model])


@app.command("unload")
@grouped
def unload(
    server: ServerOptions,
    model: Annotated[str, typer.Argument(metavar="MODEL", help="The model to unload.")],
    timeout: options.Timeout = options.TIMEOUT,
    json: options.Json = False,
) -> None:
    """Unload a model; what already runs on it finishes."""
    with server.connect(timeout) as client:
        client.unload_model(model)
    if json:
        print_json({"unloaded": model if model.startswith("models/") else f"models/{model}"})
    else:
        console().print(f"unloaded {model}")


def document(model: Model) -> dict[str, Any]:
    """The model as JSON has it."""
    fields = dataclasses.asdict(model)
    return fields | {"ready_time": model.ready_time.isoformat() if model.ready_time else None}


def models_table(models: Iterable[Model], columns: int) -> Table:
    """A row for each model, with that many of the columns; of a model that is not ready, its state and nothing else."""
    result = table(COLUMNS[:columns])
    for model in models:
        name = printable(model.name)
        if model.state != "ready":
            result.add_row(name.append(f" ({model.state})", style="yellow"))
            continue
        cells = (
            name,
            f"{model.architecture}, {model.layers} x {model.heads}",
            count(model.parameters),
            str(model.max_tokens),
            f"{model.runtime} {model.device}, {model.precision}",
            count(model.weight_bytes, "B"),
            ", ".join(model.capabilities),
        )
        result.add_row(*cells[:columns])
    return result


def model_table(model: Model) -> Table:
    """A row for each field of a model that is set."""
    result = table(["", ""])
    result.show_header = False
    texts = document(model) | {
        "capabilities": ", ".join(model.capabilities),
        "labels": ", ".join(f"{index} {label}" for index, label in enumerate(model.labels)),
        "pruned_heads": pruned(model),
        "compression": "; ".join(step.description or step.step for step in model.compression),
    }
    for field, value in texts.items():
        if value not in ("", None, 0):
            result.add_row(field.replace("_", " "), printable(str(value)))
    return result


def pruned(model: Model) -> str:
    """How many heads are pruned, and which; empty if none is."""
    number = sum(map(len, model.pruned_heads.values()))
    return f"{number} of {model.layers * model.heads} ({heads_name(model.pruned_heads)})" if number else ""


def print_models(screen: Console, models: Iterable[Model]) -> None:
    """The models as a table, with as many columns as the screen has room for."""
    models = list(models)
    most = len(COLUMNS) if screen.width >= WIDE else NARROW_COLUMNS
    tables = [models_table(models, columns) for columns in range(most, 0, -1)]
    screen.print(next((each for each in tables if fits(screen, each)), tables[-1]))
    for model in models:
        name = printable(model.name)
        if model.labels:
            more = f", ... {len(model.labels) - MAX_LABELS} more" if len(model.labels) > MAX_LABELS else ""
            screen.print(name + printable(f" says {', '.join(model.labels[:MAX_LABELS])}{more}"))
        if model.pruned_heads:
            screen.print(name + printable(f" lacks heads: {pruned(model)}"))
        if model.compression:
            screen.print(name + printable(f" is compressed: {', '.join(step.step for step in model.compression)}"))


@contextmanager
def progress_bar() -> Iterator[Any]:
    """Shows how far a load is, on stderr and only on a terminal."""
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn())
    screen = console(stderr=True)
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as progress:
        task = progress.add_task("asking the server", total=None)

        def show(event: LoadProgress) -> None:
            description = f"{event.stage.replace('_', ' ')} {event.detail}".strip()
            progress.update(task, description=description, completed=event.done_bytes, total=event.total_bytes or None)

        yield show
