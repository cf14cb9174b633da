"""Prints hidden states: how many there are of a text, and how long they are in each layer."""

import dataclasses
from typing import Any

import numpy as np
from bertscope import HiddenStates
from bertscope.values.documents import fields_of
from rich.console import Console

from bertscope_workbench.command.options.texts import answers_document
from bertscope_workbench.command.views.output import count, plural, print_cut, printable, table
from bertscope_workbench.readers.state_files import WrittenStates


def document(found: list[HiddenStates]) -> dict[str, Any]:
    """Returns states in JSON types, rounded to 7 digits; the provenance, which they share, once."""
    return answers_document(found, _fields)


def _fields(text: HiddenStates) -> dict[str, Any]:
    names = [field.name for field in dataclasses.fields(text) if field.name not in ("input_index", "states")]
    return {**fields_of(text, *names), "states": np.round(text.states.astype(np.float64), 7).tolist()}


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
    cells: list[list[Any]] = []
    for layer, values in zip(found.layers, lengths, strict=True):
        ends = () if rows == 1 else (int(values.argmin()), int(values.argmax()))
        cells.append([layer, values.mean(), *(cell for end in ends for cell in (values[end], found.tokens[end].text))])
    names = ["length#.2f"] if rows == 1 else ["mean length#.2f", "shortest#.2f", "of", "longest#.2f", "of"]
    screen.print(table(["layer#", *names], cells))


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
