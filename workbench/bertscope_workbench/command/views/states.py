"""Prints hidden states: how many there are of a text, and how long they are in each layer."""

import dataclasses
from typing import Any

import numpy as np
from bertscope import HiddenStates
from rich.console import Console
from rich.text import Text

from bertscope_workbench.command.options.texts import answers_document
from bertscope_workbench.command.views.output import count, plural, print_cut, printable, table
from bertscope_workbench.readers.state_files import WrittenStates


def document(found: list[HiddenStates]) -> dict[str, Any]:
    """Returns states in JSON types, rounded to 7 digits; the provenance, which they share, once."""
    return answers_document(found, _fields)


def _fields(text: HiddenStates) -> dict[str, Any]:
    fields = {field.name: getattr(text, field.name) for field in dataclasses.fields(text) if field.name != "input_index"}
    return fields | {
        "tokens": [dataclasses.asdict(token) for token in text.tokens],
        "states": np.round(text.states.astype(np.float64), 7).tolist(),
        "provenance": dataclasses.asdict(text.provenance),
    }


def print_states(screen: Console, found: HiddenStates) -> None:
    """Prints a text, the shape of its states, and a row for each layer with the shortest and the longest state."""
    screen.print(printable(found.text if found.text_pair is None else f"{found.text} | {found.text_pair}"), style="bold")
    print_cut(screen, found.truncated_tokens)
    layers, rows, *size = found.states.shape
    joined = f", {found.pooling} of their pieces" if found.pooling else ""
    if found.pooling == "declared":
        joined = ", joined as the model declares"
    what = "states" if found.quantity == "hidden" else found.quantity.replace("_", " ")
    shape = f"{what} {[layers, rows, *size]} {found.states.dtype.name}"
    screen.print(f"{plural(rows, found.unit)}{joined}; {shape}", style="dim")
    lengths = np.linalg.norm(found.states.astype(np.float64).reshape(layers, rows, -1), axis=2)
    alone = rows == 1
    result = table(["layer#", *(["length#"] if alone else ["mean length#", "shortest#", "of", "longest#", "of"])])
    for layer, values in zip(found.layers, lengths, strict=True):
        cells: list[str | Text] = [str(layer), f"{values.mean():.2f}"]
        for place in () if alone else (int(values.argmin()), int(values.argmax())):
            cells += [f"{values[place]:.2f}", printable(found.tokens[place].text)]
        result.add_row(*cells)
    screen.print(result)


def print_written(screen: Console, written: WrittenStates, left_out: int) -> None:
    """Prints the files and what is in them."""
    *beside, main = written.paths
    size = sum(path.stat().st_size for path in written.paths)
    shape = f"{plural(written.rows, 'row')} of {plural(written.texts, 'text')}, {plural(len(written.layers), 'layer')} of "
    without = f"; left out {plural(left_out, 'text')}" if left_out else ""
    cut = f"; cut {plural(written.truncated, 'text')}" if written.truncated else ""
    numbers = f"{written.hidden_size} numbers, {written.dtype}, {count(size, 'B')}"
    screen.print(f"wrote {main}: {shape}{numbers}{without}{cut}", soft_wrap=True)
    if beside:
        more = f" and {plural(len(beside) - 1, 'other file')}" if len(beside) > 1 else ""
        screen.print(f"and beside it {beside[0].name}{more}", soft_wrap=True)
