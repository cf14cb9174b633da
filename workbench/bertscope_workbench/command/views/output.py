"""Prints the command's output: tables for people, one JSON document for machines, one line for a failure."""

import dataclasses
import json
import math
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import typer
from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from bertscope_workbench.command.views.method import with_method

BAR_WIDTH = 20
PIPE_WIDTH = 160
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
    return json.dumps(_finite(document), indent=indent, allow_nan=False) + "\n"


def print_failure(line: str) -> None:
    """Prints one line on stderr."""
    sys.stderr.write(" ".join(line.split()) + "\n")


def table(columns: Iterable[str], rows: Iterable[Iterable[Any]] = ()) -> Table:
    """Returns a table whose columns are named; a name that ends with "#" is a column of numbers. Cells are texts of rich or
    not."""
    result = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        result.add_column(Text(column.removesuffix("#")), justify="right" if column.endswith("#") else "left", overflow="fold")
    for row in rows:
        result.add_row(*row)
    return result


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


def fields_of(found: object, *names: str) -> dict[str, Any]:
    """Returns attributes of a result in JSON types: arrays as lists, records as objects."""
    return {name: _plain(getattr(found, name)) for name in names}


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


def print_left_out(screen: Console, found: object, parts: Sequence[str]) -> None:
    """Prints how many words of each part were left out."""
    for name in parts:
        own = getattr(found, name)
        if own is not None and own.truncated_spans + own.empty_spans:
            counts = f"{own.truncated_spans} cut away, {own.empty_spans} without a piece"
            screen.print(Text(f"left out of {name}: {counts}", style="yellow"))


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    return value.tolist() if hasattr(value, "tolist") else dict(value) if isinstance(value, Mapping) else value


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, (list, tuple)) else value
