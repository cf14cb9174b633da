"""`bertscope attention`: the attention maps of a text, as a digest, a table, a plot or JSON."""

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from bertscope.cli import options, specifications
from bertscope.cli.intervention_options import InterventionOptions
from bertscope.cli.option_groups import grouped
from bertscope.cli.output import Failure, console, print_json, printable, table, titled
from bertscope.cli.patterns import attention_patterns, entropy_nats
from bertscope.cli.server_options import ServerOptions
from bertscope.plots import check_format, save_attention
from bertscope.results import AttentionMaps

STRONGEST_PAIRS = 12
MIN_CELL = 3
"""Characters of a weight in a map: ".07"."""


@grouped
def attention(
    server: ServerOptions,
    base: InterventionOptions,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The text.")],
    pair: Annotated[str | None, typer.Option("--pair", metavar="TEXT", help="A second text, read with it.")] = None,
    layer: Annotated[list[str] | None, typer.Option("--layer", metavar="L[,L]", help="Layers, from 0; all unless set.")] = None,
    head: Annotated[list[str] | None, typer.Option("--head", metavar="H[,H]", help="Heads, from 0; all unless set.")] = None,
    words: Annotated[bool, typer.Option("--words", help="Whole words instead of pieces.")] = False,
    fp16: Annotated[bool, typer.Option("--fp16", help="Half the bytes, three digits.")] = False,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Draw it: .html (interactive), .png, .svg or .pdf.")
    ] = None,
    truncate: options.Truncate = False,
    model: options.ModelName = None,
    timeout: options.Timeout = options.TIMEOUT,
    json: options.Json = False,
) -> None:
    """Show what the heads of a model attend to in a text."""
    if plot is not None:
        _check_plot(plot)
    with server.connect(timeout) as client:
        (maps,) = client.extract_attention(
            text if pair is None else (text, pair),
            model=model,
            layers=specifications.numbers("--layer", layer),
            heads=specifications.numbers("--head", head),
            words=words,
            dtype="float16" if fp16 else "float32",
            interventions=base.interventions(),
            reference_texts=base.reference_texts(),
            truncate=truncate,
            timeout=timeout,
        )
    if plot is not None:
        _save_plot(maps, plot)
    if json:
        print_json(document(maps) | ({"plot": str(plot)} if plot else {}))
        return
    print_maps(console(), maps)
    if plot is not None:
        console().print(f"wrote {plot}", soft_wrap=True)


def document(maps: AttentionMaps) -> dict[str, Any]:
    """The maps as JSON has them; weights are rounded to 7 digits, about what float32 holds."""
    fields = {field.name: getattr(maps, field.name) for field in dataclasses.fields(maps) if field.name != "input_index"}
    return fields | {
        "tokens": [dataclasses.asdict(token) for token in maps.tokens],
        "attention": np.round(maps.attention.astype(np.float64), 7).tolist(),
        "provenance": dataclasses.asdict(maps.provenance),
    }


def print_maps(screen: Console, maps: AttentionMaps) -> None:
    """One head: its map, or its strongest pairs. One layer: a row for each head. More: a row for each layer."""
    if maps.truncated_tokens:
        screen.print(f"{maps.truncated_tokens} tokens were cut away", style="yellow")
    if len(maps.layers) == len(maps.heads) == 1:
        widths = [printable(token.text).cell_len for token in maps.tokens]
        width = max(widths) + 1 + sum(max(MIN_CELL, width) + 1 for width in widths)
        screen.print(map_table(maps) if width <= screen.width else pairs_table(maps))
    elif len(maps.layers) == 1:
        screen.print(heads_table(maps))
    else:
        screen.print(layers_table(maps))


def layers_table(maps: AttentionMaps) -> Group:
    """For each layer, the head that attends most to each place, and its mean weight there."""
    patterns = attention_patterns(maps)
    title = "in each layer, the head that attends most to each place, and its mean weight there"
    result = table(["layer#", *(f"{name}#" for name in patterns)])
    for index, layer in enumerate(maps.layers):
        cells = []
        for weights in patterns.values():
            best = int(weights[index].argmax())
            cells.append(shade(f"{maps.heads[best]}  {weights[index, best]:.2f}", weights[index, best]))
        result.add_row(str(layer), *cells)
    return titled(title, result)


def heads_table(maps: AttentionMaps) -> Group:
    """For each head of one layer, its mean weight at each place and the entropy of its rows."""
    patterns = attention_patterns(maps)
    entropy = entropy_nats(maps)
    title = f"layer {maps.layers[0]}: mean weight at each place"
    result = table(["head#", *(f"{name}#" for name in patterns), "entropy, nats#"])
    for index, head in enumerate(maps.heads):
        weights = [values[0, index] for values in patterns.values()]
        result.add_row(str(head), *(shade(f"{weight:.2f}", weight) for weight in weights), f"{entropy[0, index]:.2f}")
    return titled(title, result)


def map_table(maps: AttentionMaps) -> Group:
    """The whole map of one head: a row attends to the columns."""
    title = f"layer {maps.layers[0]}, head {maps.heads[0]}: each row attends to the columns"
    names = [printable(token.text) for token in maps.tokens]
    result = Table(box=None, padding=(0, 1, 0, 0))
    result.add_column("", no_wrap=True)
    for name in names:
        result.add_column(name, justify="right", no_wrap=True, min_width=max(MIN_CELL, name.cell_len))
    for name, row in zip(names, maps.attention[0, 0], strict=True):
        cells = (shade(f"{weight:.2f}".removeprefix("0"), float(weight)) for weight in row)
        result.add_row(Text(name.plain, style="bold"), *cells)
    return titled(title, result)


def pairs_table(maps: AttentionMaps) -> Group:
    """The strongest weights of one head, for a map that does not fit the screen."""
    weights = maps.attention[0, 0]
    order = np.argsort(weights, axis=None)[::-1][:STRONGEST_PAIRS]
    title = f"layer {maps.layers[0]}, head {maps.heads[0]}: strongest weights (the whole map is wider than the screen)"
    result = table(["from", "#", "to", "#", "weight#"])
    for row, column in zip(*np.unravel_index(order, weights.shape), strict=True):
        weight = float(weights[row, column])
        names = printable(maps.tokens[row].text), printable(maps.tokens[column].text)
        result.add_row(names[0], str(row), names[1], str(column), shade(f"{weight:.2f}", weight))
    return titled(title, result)


def shade(cell: str, weight: float) -> Text:
    """A number that is brighter the larger it is."""
    return Text(cell, style="bold cyan" if weight >= 0.5 else "cyan" if weight >= 0.2 else "dim" if weight < 0.05 else "")


def _check_plot(path: Path) -> None:
    try:
        check_format(path)
    except ValueError as error:
        raise typer.BadParameter(f"--plot {error}") from None


def _save_plot(maps: AttentionMaps, path: Path) -> None:
    try:
        save_attention(maps, path)
    except (ImportError, OSError, ValueError) as error:
        raise Failure(str(error)) from error
