"""Defines the kind of every command: it rejects what would otherwise be dropped or misread without a word."""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from bertscope_workbench.command.groups import grouped
from bertscope_workbench.command.views.output import UsageError

TEXTS = ("TEXT", "QUESTION", "SEQUENCE")
"""Names, in the help, of values that are texts."""
FILES = ("--texts", "--pairs", "--questions", "--passage-file", "--train")
"""Options that read texts from files, in the order in which they are proposed."""
WRITTEN = ("--output", "--summary", "--errors-output", "--word-output", "--plot", "--rows", "--keep", "--save")
"""Options of files that a command writes. The file of --resume may be one of them, too."""


class _Unconverted:
    """Leaves values alone that are as they should be: texts, and defaults. Typer converts the others by pydantic, whose import
    takes as long as all else that a short command does."""

    def __init__(self, converter: Callable[[], Any]) -> None:
        self._converter = converter

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Returns the value as the command gets it."""
        kind, several = param.type_descriptor.annotation, param.multiple or param.nargs == -1
        if value is None:
            return () if several else None
        if kind is str and isinstance(value, str):
            return value
        if kind == list[str] and isinstance(value, (list, tuple)):
            return [*value]
        return value if value == param.default else self._converter().coerce(value, param=param, ctx=ctx)


class _Parameters:
    """A command or a group whose values are converted if they need it."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Returns the arguments and options."""
        found: list[Any] = super().get_params(ctx)  # type: ignore[misc]  # it is mixed into typer's classes
        for parameter in found:
            if hasattr(parameter, "get_runtime_param") and "get_runtime_param" not in vars(parameter):  # since typer 0.27
                parameter.get_runtime_param = partial(_Unconverted, parameter.get_runtime_param)
        return found


class Group(_Parameters, TyperGroup):
    """A group of commands."""


class Command(_Parameters, TyperCommand):
    """A command that rejects an option of one value that is given twice, a file's path where a text is expected, and a file to
    write that is another of its files."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Reads the command line. Raises UsageError."""
        rest = super().parse_args(ctx, [*args])
        if not ctx.resilient_parsing:  # That is completion, of a line that is not finished.
            _, _, given = self.make_parser(ctx).parse_args(args=[*args])
            _reject_repeated(given)
            self._reject_paths(ctx.params)
            self._reject_overwritten(ctx.params)
        return rest

    def _reject_overwritten(self, values: Mapping[str, Any]) -> None:
        named: dict[Path, str] = {}
        # Files to be written come last: what they meet is lost.
        for parameter in sorted(self.params, key=lambda parameter: parameter.opts[0] in WRITTEN):
            name, value = parameter.opts[0], values.get(parameter.name or "")
            for path in value if isinstance(value, (list, tuple)) else [value]:
                if not isinstance(path, Path) or name == "--resume" or os.path.isdir(path):
                    continue
                shown = name if parameter.param_type_name == "option" else str(parameter.metavar)
                other = named.setdefault(path.resolve(), shown)
                if name in WRITTEN and other != name:
                    raise UsageError(f"{name} {path} would overwrite that of {other}: write to another file")

    def _reject_paths(self, values: Mapping[str, Any]) -> None:
        for parameter in self.params:
            if (parameter.metavar or "").strip("[].") not in TEXTS:
                continue
            value = values.get(parameter.name or "")
            for text in value if isinstance(value, (list, tuple)) else [value]:
                if isinstance(text, str) and _is_path(text):
                    raise UsageError(f"{text} is a file{self._instead(parameter, text)}")

    def _instead(self, parameter: Any, path: str) -> str:
        """Returns what to write for the file."""
        known = {name for other in self.params for name in other.opts}
        option = parameter.param_type_name == "option"
        proposed = [name for name in ((f"{parameter.opts[0]}-file",) if option else FILES) if name in known]
        if proposed:
            return f": did you mean {' or '.join(f'{name} {path}' for name in proposed)}?"
        return f", and {parameter.opts[0] if option else parameter.metavar} takes a text: write the text itself"


class Commands(typer.Typer):
    """A set of such commands."""

    def __init__(self, *, add_completion: bool = False, cls: type[TyperGroup] = Group, **options: Any) -> None:
        super().__init__(add_completion=add_completion, cls=cls, **options)

    def command(  # type: ignore[override]  # groups of options have types of their own
        self, name: str | None = None, *, cls: type[TyperCommand] | None = Command, **options: Any
    ) -> Callable[[Callable[..., None]], Callable[..., None]]:
        """Adds a command, as typer does; its parameters may be groups of options."""
        add = super().command(name, cls=cls, **options)
        return lambda command: add(grouped(command))


def _reject_repeated(given: Iterable[Any]) -> None:
    for parameter, times in Counter(given).items():
        once = parameter.param_type_name == "option" and not (parameter.multiple or parameter.is_flag or parameter.count)
        if once and times > 1:
            raise UsageError(f"{parameter.opts[0]} is given {'twice' if times == 2 else f'{times} times'}; it takes one value")


def _is_path(text: str) -> bool:
    """Says whether a text names a file; a word that happens to be the name of one, without an end, is a word."""
    try:
        return Path(text).suffix != "" and not any(map(str.isspace, text)) and Path(text).is_file()
    except (OSError, ValueError):  # A text may be too long for a name, or have a null in it.
        return False
