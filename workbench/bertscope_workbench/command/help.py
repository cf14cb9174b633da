"""Writes the help of commands: a command's own options first, those that many commands share by their names alone."""

import inspect
import re
import shutil
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, get_args, get_origin

EVERY = "--help-all"
"""The option that explains shared options, too."""
MOST_WIDTH = 120
LEFT = 26
"""The widest column of names, characters; a longer name has its text below it."""
SHORT = 58
"""The longest line about a command in a list, characters."""
FEWEST_WORDS = 4
"""The fewest words of such a line that ends at a comma."""


def help_text(command: Any, ctx: Any, others: Mapping[str, str], *, path: str, every: bool) -> str:
    """Returns the help of a command that is called by a `path`: usage, what it does, arguments and its options; those of panels
    by their names alone unless `every` is set; and the `others` that are called by the same path and a name, by their names."""
    parameters = [each for each in command.get_params(ctx) if not getattr(each, "hidden", False)]
    arguments = [each for each in parameters if each.param_type_name == "argument"]
    panels: dict[str, list[Any]] = {"Options": []}
    for each in parameters:
        if each.param_type_name == "option":
            panels.setdefault(getattr(each, "rich_help_panel", None) or "Options", []).append(each)
    usage = " ".join(["Usage:", path, *(_metavar(each, command) for each in arguments), "[OPTIONS]"])
    parts = [filled(usage, "       "), paragraphs(command.help or ""), section("Arguments", _rows(arguments, command))]
    parts += [section(title, _rows(own, command)) for title, own in panels.items() if every or title == "Options"]
    shared = [(title, [each.opts[0] for each in own]) for title, own in panels.items() if title != "Options"]
    if shared and not every:
        parts.append("\n".join([*(in_a_line(f"{title}: ", names) for title, names in shared), f"{EVERY} explains these."]))
    parts.append(section(f"{'More commands' if parameters[1:] else 'Commands'} ({path} COMMAND --help)", others.items()))
    return "\n\n".join(filter(None, parts)) + "\n"


def width() -> int:
    """Returns how wide a line may be: the terminal's width."""
    return min(shutil.get_terminal_size().columns, MOST_WIDTH)


def filled(text: str, indent: str = "", first: str = "") -> str:
    """Returns a paragraph in lines."""
    return textwrap.fill(
        text, width(), initial_indent=first, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def paragraphs(text: str) -> str:
    """Returns a docstring with its paragraphs in lines; what is indented stays as it is, to be copied."""
    parts = re.split(r"\n\s*\n", inspect.cleandoc(text))
    return "\n\n".join(part if part.startswith(" ") else filled(" ".join(part.split())) for part in parts)


def short(text: str) -> str:
    """Returns what a command does in a line of a list: the first sentence, or its beginning if it is long."""
    sentence = re.split(r"[:;] |\.(?:\s|$)| \(", " ".join(text.split()), maxsplit=1)[0]
    if len(sentence) > SHORT:
        clauses = sentence.split(", ")
        sizes = range(1, len(clauses) + 1)
        shorter = (", ".join(clauses[:size]) for size in sizes)
        return next((each for each in shorter if len(each.split()) >= FEWEST_WORDS), sentence)
    return sentence


def section(title: str, rows: Iterable[tuple[str, str]], *, left: int = 0) -> str:
    """Returns names and what they are, the names in a column, by default as wide as they need; nothing without a row."""
    rows = [*rows]
    left = left or min(LEFT, max((len(name) for name, _ in rows), default=0)) + 4
    lines = []
    for name, text in rows:
        beside = len(name) + 4 <= left
        lines += [] if beside else [f"  {name}"]
        lines.append(filled(text, " " * left, f"  {name}".ljust(left) if beside else " " * left).rstrip())
    return "\n".join([f"{title}:", *lines]) if rows else ""


def in_a_line(title: str, names: Sequence[str]) -> str:
    """Returns as many names as a line has room for, and how many there are besides."""
    for shown in range(len(names), 0, -1):
        more = f" and {len(names) - shown} more" if shown < len(names) else ""
        line = f"{title}{', '.join(names[:shown])}{more}"
        if len(line) <= width():
            return line
    return title + names[0]


def _rows(parameters: Iterable[Any], command: Any) -> list[tuple[str, str]]:
    return [(_name(each, command), _text(each, command)) for each in parameters]


def _name(parameter: Any, command: Any) -> str:
    if parameter.param_type_name == "argument":
        return _metavar(parameter, command)
    names = ", ".join(sorted(parameter.opts, key=len)) + "".join(f"/{name}" for name in parameter.secondary_opts)
    return f"{names} {_metavar(parameter, command)}".rstrip()


def _metavar(parameter: Any, command: Any) -> str:
    """Returns how a value is written: as it is declared, the choices if they are short, or the kind."""
    if parameter.metavar or getattr(parameter, "is_flag", False):
        return parameter.metavar or ""
    choices = "|".join(_choices(parameter, command))
    return (
        choices
        if 0 < len(choices) <= LEFT
        else next((name for kind, name in KINDS.items() if kind in _kinds(parameter, command)), "NAME")
    )


KINDS = {int: "N", float: "X"}


def _kinds(parameter: Any, command: Any) -> list[Any]:
    """Returns the types of a parameter's values."""
    annotation = getattr(command.callback, "__annotations__", {}).get(parameter.name)
    kind = get_args(annotation)[0] if get_args(annotation) else annotation
    return [kind, *get_args(kind)]


def _choices(parameter: Any, command: Any) -> Sequence[str]:
    return next((get_args(kind) for kind in _kinds(parameter, command) if get_origin(kind) is Literal), ())


def _text(parameter: Any, command: Any) -> str:
    """Returns what is said of an option: its help, many choices, its variable, its default, and whether it must be given."""
    choices, variable = _choices(parameter, command), getattr(parameter, "envvar", None)
    parts = [parameter.help or ""]
    if len("|".join(choices)) > LEFT:
        parts.append(f"One of {', '.join(choices)}.")
    if variable and "$" not in parts[0]:
        parts.append(f"Or ${variable}.")
    if parameter.required and parameter.param_type_name == "option":
        parts.append("Must be given.")
    default = None if callable(parameter.default) or getattr(parameter, "is_flag", False) else parameter.default
    if not (default in (None, "", ()) or default == [] or "unless set" in parts[0]):
        parts.append(f"[{default:g}]" if isinstance(default, float) else f"[{default}]")
    return " ".join(parts)
