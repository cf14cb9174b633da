"""Show what the heads of a model attend to in a text or, with --describe, over many texts; --compare two models."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

from bertscope import AttentionMaps, Quantity

from bertscope_workbench.command import options
from bertscope_workbench.command.groups import DASHED, Offered, option, refuse
from bertscope_workbench.command.options import specifications
from bertscope_workbench.command.options.describing import DescribeOptions
from bertscope_workbench.command.options.interventions import ModelOptions
from bertscope_workbench.command.options.models import Models, one_model
from bertscope_workbench.command.options.results import print_result
from bertscope_workbench.command.parts.describe import compare_texts, describe_models, describe_texts
from bertscope_workbench.command.views import files as output_files
from bertscope_workbench.command.views.attention import document, print_maps
from bertscope_workbench.command.views.output import UsageError
from bertscope_workbench.plots.attention import PAGE_FORMAT, save_attention
from bertscope_workbench.plots.look import Look


def attention(
    *,
    to: ModelOptions,
    describing: Annotated[DescribeOptions, Offered(text="The text; or texts, or lines of stdin.")],
    pair: Annotated[str | None, option("--pair TEXT", "A second text, read with it.")] = None,
    layer: Annotated[list[str] | None, option("--layer L[,L]", "Layers, from 0; all unless set.")] = None,
    head: Annotated[list[str] | None, option("--head H[,H]", "Heads, from 0; all unless set.")] = None,
    words: Annotated[bool, option("--words", "Whole words instead of pieces.")] = False,
    quantity: Annotated[Quantity, option("--quantity", "The numbers to show."), DASHED] = "weights",
    fp16: Annotated[bool, option("--fp16", "Half the bytes, three digits.")] = False,
    plot: Annotated[Path | None, option("--plot FILE", "Draw it: .html (interactive), .png, .svg or .pdf.")] = None,
    hide_special: Annotated[bool, option("--hide-special", "With --plot: leave special tokens out of the picture.")] = False,
    fixed_scale: Annotated[
        bool, option("--fixed-scale", "With --plot: colours from 0 to 1, and not to the largest weight.")
    ] = False,
    call: Annotated[options.CallOptions, Offered("truncate", "timeout", "json")],
    model: Models = None,
) -> None:
    call = replace(call, model=one_model(model, compare=describing.compare, plot=plot))
    layers = specifications.numbers("--layer", layer)
    changes = to.arguments()
    if describing.describe or describing.compare is not None:
        mode = "--describe" if describing.compare is None else "--compare"
        unused = {"--head": head, "--words": words, "--fp16": fp16}
        unused |= {"--hide-special": hide_special, "--fixed-scale": fixed_scale}
        compared = {"--layer": layer, "--quantity": quantity != "weights", **unused}
        refuse(unused if describing.compare is None else compared, f"does not go with {mode}")
        source = describing.source(pair)
        if model is not None and len(model) > 1:
            describe_models(to, describing, source, call, model, layers=layers, quantity=quantity, **changes)
        elif describing.compare is None:
            describe_texts(to, describing, source, plot, call, layers=layers, quantity=quantity, **changes)
        else:
            compare_texts(to, describing, source, plot, call, **changes)
        return
    describing.require_describe()
    if model is not None and len(model) > 1:
        raise UsageError("several --model go with --describe: the maps of a text are of one model")
    if plot is None:
        describing.require_plot_for_look(plot)
        refuse({"--hide-special": hide_special, "--fixed-scale": fixed_scale}, "goes with --plot")
    if fixed_scale and quantity != "weights":
        raise UsageError("--fixed-scale goes with --quantity weights")
    text = describing.text or []
    if len(text) != 1:
        raise UsageError("give one TEXT, or many with --describe or --compare")
    output_files.require_plot(plot, pages=() if describing.look or fixed_scale else (PAGE_FORMAT,))  # Pages follow the browser.
    with to.connect(call.timeout) as client:
        (maps,) = client.extract_attention(
            text[0] if pair is None else (text[0], pair),
            layers=layers,
            heads=specifications.numbers("--head", head),
            words=words,
            quantity=quantity,
            dtype="float16" if fp16 else "float32",
            **changes,
            **call.arguments(),
        )
    if plot is not None:
        _draw(maps, plot, hide_special=hide_special, fixed_scale=fixed_scale, look=describing.look)
    pictured_in = {"plot": str(plot)} if plot else {}
    print_result(maps, lambda maps: document(maps) | pictured_in, print_maps, json=call.json, written=[plot])


def _draw(maps: AttentionMaps, plot: Path, *, hide_special: bool, fixed_scale: bool, look: Look) -> None:
    output_files.draw(
        lambda path: save_attention(
            maps.without_special_tokens() if hide_special else maps, path, fixed_scale=fixed_scale, **look
        ),
        plot,
    )
