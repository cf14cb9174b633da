"""Show what the heads of a model attend to in a text or, with --describe, over many texts; --compare two models."""

from pathlib import Path
from typing import Annotated, Literal, get_args

import typer
from bertscope import AttentionMaps, Quantity

from bertscope_workbench.command import options
from bertscope_workbench.command.options import specifications
from bertscope_workbench.command.options.describing import DescribeOptions
from bertscope_workbench.command.options.groups import Offered, grouped
from bertscope_workbench.command.options.interventions import InterventionOptions
from bertscope_workbench.command.options.results import print_result
from bertscope_workbench.command.options.server import ServerOptions
from bertscope_workbench.command.parts.compare_attention import compare_texts
from bertscope_workbench.command.parts.describe import describe_texts
from bertscope_workbench.command.views import files as output_files
from bertscope_workbench.command.views.attention import document, print_maps
from bertscope_workbench.command.views.output import UsageError
from bertscope_workbench.plots.attention import PAGE_FORMAT, save_attention

QUANTITIES: dict[str, Quantity] = {name.replace("_", "-"): name for name in get_args(Quantity)}


@grouped
def attention(
    *,
    server: ServerOptions,
    base: InterventionOptions,
    describing: Annotated[DescribeOptions, Offered(text="The text; or texts, or lines of stdin.")],
    pair: Annotated[str | None, typer.Option("--pair", metavar="TEXT", help="A second text, read with it.")] = None,
    layer: Annotated[list[str] | None, typer.Option("--layer", metavar="L[,L]", help="Layers, from 0; all unless set.")] = None,
    head: Annotated[list[str] | None, typer.Option("--head", metavar="H[,H]", help="Heads, from 0; all unless set.")] = None,
    words: Annotated[bool, typer.Option("--words", help="Whole words instead of pieces.")] = False,
    quantity: Annotated[
        Literal[
            "weights", "norms", "layer-norms", "layer-output-norms", "rollout", "rollout-without-residual", "value-zeroing"
        ],
        typer.Option("--quantity", help="The numbers to show."),
    ] = "weights",
    fp16: Annotated[bool, typer.Option("--fp16", help="Half the bytes, three digits.")] = False,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Draw it: .html (interactive), .png, .svg or .pdf.")
    ] = None,
    hide_special: Annotated[
        bool, typer.Option("--hide-special", help="With --plot: leave special tokens out of the picture.")
    ] = False,
    fixed_scale: Annotated[
        bool, typer.Option("--fixed-scale", help="With --plot: colours from 0 to 1, and not to the largest weight.")
    ] = False,
    call: options.CallOptions,
) -> None:
    layers = specifications.numbers("--layer", layer)
    changes = base.arguments()
    if describing.describe or describing.compare is not None:
        mode = "--describe" if describing.compare is None else "--compare"
        unused = [("--head", head), ("--words", words), ("--fp16", fp16)]
        unused += [("--hide-special", hide_special), ("--fixed-scale", fixed_scale)]
        compared = [("--layer", layer), ("--quantity", quantity != "weights"), *unused]
        for option, given in unused if describing.compare is None else compared:
            if given:
                raise UsageError(f"{option} does not go with {mode}")
        source = describing.source(pair)
        if describing.compare is None:
            chosen = QUANTITIES[quantity]
            describe_texts(server, describing, source, plot, call, layers=layers, quantity=chosen, **changes)
        else:
            compare_texts(server, describing, source, plot, call, **changes)
        return
    describing.require_describe()
    pictured = {"--dark": describing.dark, "--hide-special": hide_special, "--fixed-scale": fixed_scale}
    for option, given in pictured.items():
        if given and plot is None:
            raise UsageError(f"{option} goes with --plot")
    if fixed_scale and quantity != "weights":
        raise UsageError("--fixed-scale goes with --quantity weights")
    text = describing.text or []
    if len(text) != 1:
        raise UsageError("give one TEXT, or many with --describe or --compare")
    output_files.require_plot(plot, pages=() if describing.dark or fixed_scale else (PAGE_FORMAT,))  # Pages follow the browser.
    with server.connect(call.timeout) as client:
        (maps,) = client.extract_attention(
            text[0] if pair is None else (text[0], pair),
            layers=layers,
            heads=specifications.numbers("--head", head),
            words=words,
            quantity=QUANTITIES[quantity],
            dtype="float16" if fp16 else "float32",
            **changes,
            **call.arguments(),
        )
    if plot is not None:
        _draw(maps, plot, hide_special=hide_special, fixed_scale=fixed_scale, dark=describing.dark)
    pictured_in = {"plot": str(plot)} if plot else {}
    print_result(maps, lambda maps: document(maps) | pictured_in, print_maps, json=call.json, written=[plot])


def _draw(maps: AttentionMaps, plot: Path, *, hide_special: bool, fixed_scale: bool, dark: bool) -> None:
    output_files.draw(
        lambda path: save_attention(
            maps.without_special_tokens() if hide_special else maps, path, fixed_scale=fixed_scale, dark=dark
        ),
        plot,
    )
