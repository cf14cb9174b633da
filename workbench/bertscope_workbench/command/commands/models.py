"""List, show, load and unload the models of a server."""

import sys
from typing import Literal

import typer
from bertscope import Precision
from bertscope.values.documents import document_of

from bertscope_workbench.command import options
from bertscope_workbench.command.checked_commands import Commands
from bertscope_workbench.command.groups import argument, flag, offered, option
from bertscope_workbench.command.options.results import print_result
from bertscope_workbench.command.options.server import ServerOptions
from bertscope_workbench.command.views.models import model_table, print_models
from bertscope_workbench.command.views.progress import loading

app = Commands(help=__doc__)


@app.callback(invoke_without_command=True)
def models(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        sys.stdout.write(context.get_help() + "\n")


@app.command("list")
def list_models(server: ServerOptions, call: options.CallOptions = offered("timeout", "json")) -> None:
    """List the loaded models, the default model first."""
    with server.connect(call.timeout) as client:
        found = client.list_models()
    print_result(found, lambda models: {"models": [*map(document_of, models)]}, print_models, json=call.json)


@app.command("show")
def show(
    *,
    server: ServerOptions,
    model: str | None = argument("[MODEL]", "The model; the default model unless given.", default=None),
    call: options.CallOptions = offered("timeout", "json"),
) -> None:
    """Show all that is known of one model, its labels and pruned heads among it."""
    with server.connect(call.timeout) as client:
        found = client.get_model(model)
    print_result(found, document_of, lambda screen, found: screen.print(model_table(found)), json=call.json)


@app.command("load")
def load(
    *,
    server: ServerOptions,
    source: str = argument("SOURCE", "A hub id, or a folder or .onnx file on the server."),
    name: str | None = option("--name", "The id that the model gets; the last part of SOURCE unless set."),
    device: str | None = option("--device", '"auto", "cpu", "cuda:N" or "mps".'),
    precision: Precision | None = option("--precision", "The number format to compute in."),
    revision: str | None = option("--revision", "Branch, tag or commit of a hub id."),
    runtime: Literal["auto", "torch", "onnx"] | None = option(
        "--runtime", "The library that runs it; auto chooses by a measurement."
    ),
    replace: bool = flag("--replace", "Put it in the place of a model of that name, which answers until then."),
    call: options.LongCallOptions = offered("timeout", "json", timeout="How long the load may take."),
) -> None:
    """Load a model, and wait until it is ready."""
    with server.connect(call.timeout) as client, loading() as show:
        model = client.load_model(
            name,
            source=source,
            device=device,
            precision=precision,
            revision=revision,
            runtime=runtime,
            replace=replace,
            on_progress=show,
            timeout=call.timeout,
        )
    print_result(model, document_of, lambda screen, model: print_models(screen, [model]), json=call.json)


@app.command("unload")
def unload(
    *,
    server: ServerOptions,
    model: str = argument("MODEL", "The model to unload."),
    call: options.CallOptions = offered("timeout", "json"),
) -> None:
    """Unload a model; what already runs on it finishes."""
    with server.connect(call.timeout) as client:
        client.unload_model(model)
    print_result(
        model if model.startswith("models/") else f"models/{model}",
        lambda name: {"unloaded": name},
        lambda screen, _: screen.print(f"unloaded {model}"),
        json=call.json,
    )
