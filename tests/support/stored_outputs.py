"""Outputs of all kinds as text that is stored beside the tests: results, messages, tables, figures, prints, refusals.

`pytest --store-outputs` writes the stored texts of the tests that run. Look at what changed before you commit it.
"""

import ast
import dataclasses
import datetime
import difflib
import enum
import functools
import io
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from bertscope import Provenance
from google.protobuf.message import Message

from tests.support.described_figures import described_figure

WIDTH = 180
MOST_NUMBERS = 300


def check(place: Path, things: Mapping[str, Any], *, store: bool) -> None:
    """Compares things, written one below the other, with the text that is stored there; or stores them. Of results the text
    has what a prompt shows, too, and their table."""
    parts: dict[str, Any] = {}
    for name, thing in things.items():
        parts[name] = thing
        if hasattr(thing, "to_pandas") and not isinstance(thing, type):
            parts |= {f"{name} at a prompt": repr(thing), f"{name} as a table": outcome(thing.to_pandas)}
    text = "".join(f"== {name.replace('_', ' ')}\n{written(part)}\n\n" for name, part in parts.items()).rstrip("\n") + "\n"
    text = "\n".join(line.rstrip() for line in text.split("\n"))
    text = re.sub(r"(bertscope'?\"?: ['\"])\d[^'\"]*", r"\1VERSION", text)
    if store:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
        return
    assert place.exists(), f"{place} is missing; look at what `pytest --store-outputs` writes"
    kept = place.read_text(encoding="utf-8")
    changes = difflib.unified_diff(kept.splitlines(), text.splitlines(), str(place), "now", lineterm="")
    assert kept == text, "\n".join(changes)


def unused(folder: Path) -> list[Path]:
    """Returns the stored texts below a folder that no test there compares with anything."""
    found = []
    for place in folder.rglob("outputs/*"):
        module = place.parent.parent / f"test_{place.name}.py"
        body = ast.parse(module.read_text(encoding="utf-8")).body if module.exists() else []
        tests = [node for node in body if isinstance(node, ast.FunctionDef)]
        used = {test.name for test in tests if "stored" in [argument.arg for argument in test.args.args]}
        found += [path for path in place.iterdir() if f"test_{path.stem.partition('[')[0]}" not in used]
    return found


def written(thing: Any) -> str:
    """Returns a thing as lines of text."""
    if isinstance(thing, str):
        return "\n".join(line.rstrip() for line in thing.splitlines())
    if hasattr(thing, "get_suptitle"):
        return described_figure(thing, numbers)
    if hasattr(thing, "to_csv"):
        kinds = ", ".join(f"{name} {kind}" for name, kind in thing.dtypes.items())
        rows = [[short(value) for value in row] for row in thing.itertuples(index=False)]
        return "\n".join([kinds, *(" | ".join(row) for row in rows)])
    return "\n".join(lines_of(thing))


def lines_of(thing: Any) -> list[str]:
    """Returns the lines of a thing with parts, each part on a line of its own if it is short, or indented below its name."""
    if _is_call(thing):
        thing = outcome(thing)
    line = short(thing)
    if len(line) <= WIDTH or isinstance(thing, (str, bytes, BaseException)):
        return [line]
    if isinstance(thing, np.ndarray):
        return [f"{thing.dtype}{list(thing.shape)}", *(short(row) for row in thing.reshape(len(thing), -1))]
    found = []
    for name, part in parts_of(thing):
        head = f"{name}: " if name else ""
        own = lines_of(part)
        found += [f"{head}{own[0]}"] if len(own) == 1 else [head.rstrip() or "-", *(f"  {line}" for line in own)]
    return [*([type(thing).__name__] if hasattr(thing, "__dict__") else []), *found]


def parts_of(thing: Any) -> Iterable[tuple[str, Any]]:
    """Yields the names and values of a thing's parts: fields, entries, and what properties compute."""
    if isinstance(thing, Message):
        for field, value in thing.ListFields():
            yield field.name, _field(field, value)
    elif isinstance(thing, Mapping):
        yield from ((short(name), value) for name, value in thing.items())
    elif dataclasses.is_dataclass(thing) or hasattr(thing, "_fields"):
        names = [field.name for field in dataclasses.fields(thing)] if dataclasses.is_dataclass(thing) else thing._fields
        yield from ((name, getattr(thing, name)) for name in names)
        for name, value in sorted(_properties(type(thing)).items()):
            yield f".{name}", functools.partial(value.__get__, thing)
    else:
        yield from (("", value) for value in thing)


def _properties(kind: type) -> dict[str, Any]:
    kinds = (property, functools.cached_property)
    fields = {field.name for field in dataclasses.fields(kind)} if dataclasses.is_dataclass(kind) else set()
    found = {name: value for base in kind.__mro__ for name, value in vars(base).items() if isinstance(value, kinds)}
    return {name: value for name, value in found.items() if not name.startswith("_") and name not in fields}


def _field(field: Any, value: Any) -> Any:
    names = field.enum_type.values_by_number if field.enum_type is not None else {}
    if names:
        name = lambda number: Name(names[number].name if number in names else str(number))  # noqa: E731
        return [name(number) for number in value] if field.is_repeated else name(value)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        return dict(value)
    return list(value) if field.is_repeated else value


class Name(str):
    """A text that is written without quotes."""


def short(thing: Any) -> str:
    """Returns a thing on one line."""
    kind = type(thing).__name__
    if kind in ("NAType", "NaTType"):
        return "-"
    if kind.startswith("Repeated"):  # of protobuf, which has no __iter__
        thing = list(thing)
    for kinds, write in SIMPLE:
        if isinstance(thing, kinds):
            return write(thing)
    if _is_call(thing):
        return short(outcome(thing))
    if isinstance(thing, Message) and {"dtype", "shape", "data"} <= set(thing.DESCRIPTOR.fields_by_name):
        return _tensor(thing)
    if isinstance(thing, Mapping):
        return f"{{{', '.join(f'{name}: {short(value)}' for name, value in parts_of(thing))}}}"
    if isinstance(thing, Provenance):
        return f"Provenance({thing.model})"
    if isinstance(thing, Message) or dataclasses.is_dataclass(thing) or hasattr(thing, "_fields"):
        return f"{kind}({', '.join(f'{name}={short(value)}' for name, value in parts_of(thing))})"
    return f"[{', '.join(map(short, thing))}]" if hasattr(thing, "__iter__") else kind


SIMPLE: tuple[tuple[Any, Callable[[Any], str]], ...] = (
    ((type(None), bool, np.bool_, Name, type, datetime.date, datetime.timedelta), str),
    (enum.Enum, lambda thing: thing.name),
    ((int, np.integer), lambda thing: str(int(thing))),
    ((float, np.floating), lambda thing: numbers([thing])),
    ((str, bytes), repr),
    (BaseException, lambda thing: f"{type(thing).__name__}: {thing}"),
    (np.ndarray, lambda thing: f"{thing.dtype}{list(thing.shape)} {numbers(thing)}"),
    ((set, frozenset), lambda thing: f"{{{', '.join(sorted(map(short, thing)))}}}"),
)
"""How things of these types are written, the first that fits."""


def _tensor(thing: Any) -> str:
    kind = {1: "<f4", 2: "<f2"}.get(thing.dtype)
    whole = kind is not None and len(thing.data) == np.dtype(kind).itemsize * np.prod(thing.shape)
    values = numbers(np.frombuffer(thing.data, kind)) if whole else f"{len(thing.data)} bytes"
    return f"tensor{list(thing.shape)} {values}"


def _is_call(thing: Any) -> bool:
    return isinstance(thing, functools.partial) or (callable(thing) and getattr(thing, "__name__", "") == "<lambda>")


def numbers(values: Any) -> str:
    """Returns numbers with six digits, what is nearly nothing as 0, and of very many their first ones, mean and extremes."""
    array = np.ravel(np.asarray(values))
    if array.dtype.kind not in "fiub":
        return " ".join(map(str, array.tolist()))
    shown = [_number(value) for value in array[:MOST_NUMBERS].tolist()]
    if array.size > MOST_NUMBERS:
        return f"{' '.join(shown[:12])} ... {_number(array.min())} to {_number(array.max())}, mean {_number(array.mean())}"
    return " ".join(shown)


def _number(value: float) -> str:
    return "0" if abs(value) < 1e-9 else f"{value:.6g}"


def outcome(call: Callable[[], Any]) -> Any:
    """Returns what a call returns, or the error that it raises."""
    try:
        return call()
    except Exception as error:  # noqa: BLE001  # whatever it is, it is stored
        return Name(f"{type(error).__name__}: {error}")


def printed(show: Callable[..., object], *given: Any, width: int = 100, **more: Any) -> str:
    """Returns what a function prints on a console, and below it which parts have a style."""
    from rich.console import Console

    screen = Console(
        file=io.StringIO(), width=width, record=True, force_terminal=True, color_system="standard", legacy_windows=False,
        markup=False, emoji=False, highlight=False, _environ={},
    )  # fmt: skip
    show(screen, *given, **more)
    found = screen.export_text(clear=False)
    styled: dict[str, list[str]] = {}
    for codes, part in re.findall(r"\x1b\[([\d;]+)m(.*?)\x1b\[0m", screen.export_text(styles=True), re.DOTALL):
        if part.strip() and not set(part) <= set("─━ \n"):
            styled.setdefault(" ".join(STYLES.get(code, code) for code in codes.split(";")), []).append(part.strip())
    return "\n".join([found.rstrip("\n"), *(f"[{style}] {' | '.join(parts)}" for style, parts in styled.items())])


COLORS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
STYLES = {"1": "bold", "2": "dim", "3": "italic", "7": "reverse"}
STYLES |= {str(30 + number): name for number, name in enumerate(COLORS)}
