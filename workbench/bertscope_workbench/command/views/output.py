"""Prints the command's output: tables for people, one JSON document for machines, one line for a failure."""

import json
import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import typer
from bertscope.values.columns import Column
from bertscope.values.documents import fields_of, finite
from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from bertscope_workbench.command.views.method import with_method

BAR_WIDTH = 20
PIPE_WIDTH = 160
PARTS = ("train", "dev", "test")
"""The parts of the texts that a probe is trained on and scored on."""
UNBOUNDED = 10_000
"""A width that no table reaches, to measure how wide one would be."""


# The parent of BadParameter is the error for every wrong use of the command line. Typer moved it (it was click's).
UsageError: type[Exception] = typer.BadParameter.__mro__[1]


class Failure(Exception):
    """A command failed; the message is the one line to print."""

    exit_code = 1


class Interrupted(Failure):
    """A command was interrupted by Ctrl-C."""

    exit_code = 130


class Terminated(Failure):
    """A command was ended by a signal that asks it to end."""

    exit_code = 143


def console(*, stderr: bool = False) -> Console:
    """Returns a console that prints text as it is: user text may look like markup."""
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else PIPE_WIDTH
    return Console(stderr=stderr, markup=False, emoji=False, highlight=False, width=width)


def print_json(document: Any) -> None:
    """Prints one JSON document on stdout, with the method of the command's numbers."""
    sys.stdout.write(json_text(with_method(document)))


def json_text(document: Any, indent: int | None = 2) -> str:
    """Returns one JSON document, ASCII only. JSON has no infinity and no NaN: they become null."""
    return json.dumps(finite(document), indent=indent, allow_nan=False) + "\n"


def print_failure(line: str) -> None:
    """Prints one line on stderr."""
    sys.stderr.write(" ".join(line.split()) + "\n")


def table(columns: Iterable[str | Column], rows: Iterable[Sequence[Any]] = ()) -> Table:
    """Returns a table. A column is declared, or named: "answer" is one of texts, "share#%" one of numbers in a form of `shown`.

    Cells are values, or texts of rich. A column in which no row has a value is left out; an empty row is a line between rows.
    """
    declared = [column if isinstance(column, Column) else _named(column) for column in columns]
    cells = [[shown(value, column.form) for value, column in zip(row, declared, strict=True)] if row else [] for row in rows]
    filled = [place for place in range(len(declared)) if not cells or any(row and row[place] for row in cells)]
    result = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in (declared[place] for place in filled):
        result.add_column(Text(column.title), justify="left" if column.text else "right", overflow="fold")
    for row in cells:
        if row:
            result.add_row(*(row[place] for place in filled))
        else:
            result.add_section()
    return result


def shown(value: Any, form: str = "") -> Text:
    """Returns a value as people read it; nothing for one that there is not (None, NaN); the ends of an interval in one cell.

    `form` is a format (".3f"), "%" for a share in percent, "100" for one without the sign, "+%" for a difference of shares in
    points of 100, "p" for a probability, "bar" for a share as a bar, "shade" for a share that is brighter the larger it is.
    """
    if isinstance(value, Text):
        return value
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, tuple):
        return Text(" to ").join(ends) if (ends := [shown(end, form) for end in value]) and ends[0] else Text("")
    if value is None or math.isnan(value):
        return Text("")
    if form in FORMS:
        return FORMS[form](value)
    return Text(f"{value:{form}}")


def _named(name: str) -> Column:
    found = NUMBERS.search(name)
    if found is None:
        return Column(name, name, text=True)
    return Column(name, name[: found.start()] or " ", found[1], text=found[1] == "bar")


def titled(title: str, content: RenderableType) -> Group:
    """Returns a line above a table. (A table's own title would be broken to the width of the table.)"""
    return Group(Text(title, style="bold"), content)


def print_heading(screen: Console, model: str, *counts: str, truncated: int = 0) -> None:
    """Prints how much was asked, and which model; then how many texts were cut, if some were."""
    screen.print(Text("".join(f"{count}, " for count in counts), style="bold").append_text(printable(model)))
    if truncated:
        screen.print(f"texts that were cut: {truncated}", style="yellow")


def print_cut(screen: Console, tokens: int) -> None:
    """Prints how many tokens of a text were cut away, if some were."""
    if tokens:
        screen.print(f"{tokens} tokens were cut away", style="yellow")


def text_line(text: str, pair: str | None = None) -> Text:
    """Returns a text, and the one that was read with it, in a line."""
    line = printable(text)
    return line if pair is None else line.append(" / ", style="dim").append_text(printable(pair))


def trained_document(found: Any, *names: str, parts: str | None = None, **more: Any) -> dict[str, Any]:
    """Returns a result that training gave, or that applies one, in JSON types: its model, some of its attributes, of its parts
    `train`, `dev` and `test` the number of their `parts` ("spans"), and the rows of its table as its layers."""
    of = found.provenance
    document = {"model": of.model, "weights": of.weights_digest, **fields_of(found, *names)}
    if parts is not None:
        own = {name: getattr(found, name) for name in PARTS}
        more[parts.removeprefix("used_")] = {name: getattr(part, parts) for name, part in own.items() if part is not None}
    return document | more | ({} if "layers" in more else {"layers": found.records()})


def fits(screen: Console, content: Table) -> bool:
    """Returns True if the screen has room for a table without breaking its cells."""
    unbounded = screen.options.update_width(UNBOUNDED)
    return screen.measure(content, options=unbounded).maximum <= screen.width


def printable(text: str) -> Text:
    """Returns the text, with control characters shown as escapes."""
    return Text("".join(char if char.isprintable() else repr(char)[1:-1] for char in text))


def bar(share: float) -> Text:
    """Returns a share from 0 to 1 as a bar."""
    eighths = round(max(0.0, min(1.0, share)) * BAR_WIDTH * 8)
    full, rest = divmod(eighths, 8)
    return Text("█" * full + (" ▏▎▍▌▋▊▉"[rest] if rest else ""), style="cyan")


def shade(cell: str, weight: float) -> Text:
    """Returns a number that is brighter the larger it is."""
    return Text(cell, style="bold cyan" if weight >= 0.5 else "cyan" if weight >= 0.2 else "dim" if weight < 0.05 else "")


FORMS: Mapping[str, Callable[[float], Text]] = {
    "%": lambda share: Text(percent(share)),
    "100": lambda share: Text(f"{100 * share:.1f}"),
    "+%": lambda difference: Text(f"{100 * difference:+.1f}"),
    "p": lambda value: Text(probability(value)),
    "bar": bar,
    "shade": lambda weight: shade(f"{weight:.2f}", weight),
}
"""Forms of numbers beside Python's."""
NUMBERS = re.compile(rf"#({'|'.join(map(re.escape, FORMS))}|[+,]?(?:\.\d)?[efg%]?)$")
"""Ends the name of a column of numbers, with their form."""


def probability(value: float) -> str:
    """Returns three significant digits: 0.0423, 1.27e-06."""
    return f"{value:.3g}" if value < 0.001 else f"{value:.4f}"


def count(value: float, unit: str = "") -> str:
    """Returns a large number with its prefix: 11.2 M, 43.9 MB."""
    exponent = min(3, int(math.log10(value)) // 3) if value >= 1 else 0
    return f"{value / 1000**exponent:.3g} {('', 'k', 'M', 'G')[exponent]}{unit}".rstrip()


def percent(share: float) -> str:
    """Returns a share in percent; nothing for one that there is not (NaN)."""
    return "" if math.isnan(share) else f"{100 * share:.1f} %"


def reach(ends: Sequence[float] | None, sign: str = "") -> str:
    """Returns an interval of shares in percent, without the unit: 12.5 to 40.0; nothing for one that there is not."""
    if ends is None or math.isnan(ends[0]):
        return ""
    return f"{100 * ends[0]:{sign}.1f} to {100 * ends[1]:{sign}.1f}"


def starred(layer: int, best: int) -> str:
    """Returns a layer's number, with a star if it is the best one."""
    return f"{layer}{' *' if layer == best else '  '}"


def plural(number: int, noun: str) -> str:
    """Returns a number with its noun: 1 core, 2 cores."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def print_left_out(screen: Console, found: object) -> None:
    """Prints how many words of each part were left out."""
    for name in PARTS:
        own = getattr(found, name)
        if own is not None and own.truncated_spans + own.empty_spans:
            counts = f"{own.truncated_spans} cut away, {own.empty_spans} without a piece"
            screen.print(Text(f"left out of {name}: {counts}", style="yellow"))
