"""Defines the kind of every command: it rejects what would otherwise be dropped or misread without a word."""

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup

from bertscope_workbench.command.groups import grouped
from bertscope_workbench.command.help import EVERY, help_text, short
from bertscope_workbench.command.views.output import UsageError

TEXTS = ("TEXT", "QUESTION", "SEQUENCE")
"""Names, in the help, of values that are texts."""
FILES = ("--texts", "--pairs", "--questions", "--passage-file")
"""Options that read texts from files, in the order in which they are proposed."""
EXTRA = re.compile(r"extra arguments?.* \((\S+?)[ )]")
"""An argument too many, in typer's words."""
READS = ("Measure", "Read", "Trace")
"""How help texts of options begin whose files have what is asked."""
ALIKE = 0.75
"""How alike a wrong option and one that is proposed are, at least, of 1."""
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

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Reads the command line, where a group explains all of its options in any case."""
        return super().parse_args(ctx, ["--help"] if args[:1] == [EVERY] else args)

    def get_help(self, ctx: Any) -> str:
        """Returns the help."""
        return help_text(self, ctx, self.short_helps(), path=ctx.command_path, every=True).rstrip()

    def short_helps(self) -> dict[str, str]:
        """Returns what the commands do, a line each, by their names."""
        return {name: short(command.help or "") for name, command in self.commands.items()}


class Modes(Group):
    """A command of several modes, which take different options: the first one runs unless another is named.

    `moved` has what the command was called with before it had modes: the command to write now, by the option.
    """

    moved: ClassVar[Mapping[str, str]] = {}

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Reads the command line. Raises UsageError for an option that is a mode now."""
        if not args or args[0] not in self.commands:
            for option in () if ctx.resilient_parsing else (each.partition("=")[0] for each in _before_dashes(args)):
                if option in self.moved:
                    raise UsageError(f"{option} is a command of its own: {ctx.command_path} {self.moved[option]}")
            args = [next(iter(self.commands)), *args]
        return super().parse_args(ctx, args)


class Command(_Parameters, TyperCommand):
    """A command that rejects an option of one value that is given twice, a file's path where a text is expected, and a file to
    write that is another of its files."""

    def get_help(self, ctx: Any) -> str:
        """Returns the help; that of the mode that runs unless another is named has the others'."""
        others = ctx.parent.command.short_helps() if ctx.parent and isinstance(ctx.parent.command, Modes) else {}
        first = ctx.info_name == next(iter(others), "")
        path, every = (ctx.parent if first else ctx).command_path, ctx.meta.get(EVERY, False)
        shown = {name: text for name, text in others.items() if first and name != ctx.info_name}
        return help_text(self, ctx, shown, path=path, every=every).rstrip()

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Reads the command line. Raises UsageError."""
        if EVERY in _before_dashes(args) and self.add_help_option:
            ctx.meta[EVERY] = True
            args = ["--help"]
        args = [*self._given_before(ctx), *args]
        try:
            rest = super().parse_args(ctx, [*args])
        except UsageError as error:
            raise _explained(error, ctx) from None
        if not ctx.resilient_parsing:  # That is completion, of a line that is not finished.
            _, _, given = self.make_parser(ctx).parse_args(args=[*args])
            _reject_repeated(given, ctx)
            self._reject_paths(ctx.params)
            self._reject_overwritten(ctx.params)
        return rest

    def _given_before(self, ctx: Any) -> list[str]:
        """Returns the options that are given before the command. Raises UsageError for a command that has no such option."""
        given: list[str] = []
        for name, value in ctx.find_root().params.items() if ctx.parent else ():
            if name in ("target", "token_file") and value is not None:
                option = f"--{name.replace('_', '-')}"
                if not any(parameter.name == name for parameter in self.params):
                    raise UsageError(f"{option} goes with commands that call a server; {ctx.command_path} calls none")
                given += [option, str(value)]
        return given

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

    def __init__(self, name: str | None = None, *, cls: type[TyperGroup] = Group, **options: Any) -> None:
        super().__init__(name=name, cls=cls, **{"add_completion": False, **options})

    def command(  # type: ignore[override]  # groups of options have types of their own
        self, name: str | None = None, *, cls: type[TyperCommand] | None = Command, **options: Any
    ) -> Callable[[Callable[..., None]], Callable[..., None]]:
        """Adds a command, as typer does; its parameters may be groups of options."""
        add = super().command(name, cls=cls, **options)
        path = [part for part in (self.info.name, name) if isinstance(part, str)]
        return lambda command: add(grouped(command, *path))


def modes(name: str, help: str | None, **moved: str) -> Commands:  # noqa: A002  # as typer calls it
    """Returns the set of a command's modes; `moved` as `Modes` has it, without dashes."""
    kind = type("Modes", (Modes,), {"moved": {f"--{option.replace('_', '-')}": command for option, command in moved.items()}})
    return Commands(name, cls=kind, help=help)


def _before_dashes(args: list[str]) -> list[str]:
    """Returns the arguments that may be options: those before "--"."""
    return args[: args.index("--")] if "--" in args else args


def _siblings(ctx: Any, option: str, *, repeated: bool = False) -> str:
    """Returns the other modes that have an option, to be `repeated` if that is asked for: "bertscope score pairs"."""
    parent = ctx.parent.command if ctx.parent else None
    known = parent.commands.items() if isinstance(parent, Modes) else ()
    having = ((name, each) for name, mode in known for each in mode.params if option in each.opts)
    return " or ".join(f"{ctx.parent.command_path} {name}" for name, each in having if each.multiple or not repeated)


def _explained(error: Any, ctx: Any) -> Any:
    """Returns an error; for an option that there is not one that names the modes that have it, or options written alike; for a
    file that no argument takes one that names the options that read files."""
    if not hasattr(error, "possibilities"):
        extra = EXTRA.search(error.message)
        reading = [each.opts[0] for each in ctx.command.params if each.metavar == "FILE" and each.help.startswith(READS)]
        if extra and _is_path(extra[1]) and reading:
            return UsageError(f"{extra[1]} is a file: give it to one of {', '.join(reading)}", ctx)
        return error
    if modes := _siblings(ctx, error.option_name):
        return UsageError(f"{error.option_name} is an option of {modes}")
    known = [option for parameter in ctx.command.get_params(ctx) for option in parameter.opts]
    error.possibilities = get_close_matches(error.option_name, known, cutoff=ALIKE)
    return error


def _reject_repeated(given: Iterable[Any], ctx: Any) -> None:
    for parameter, times in Counter(given).items():
        once = parameter.param_type_name == "option" and not (parameter.multiple or parameter.is_flag or parameter.count)
        if once and times > 1:
            several = _siblings(ctx, parameter.opts[0], repeated=True)
            more = f"; for several: {several}" if several else ""
            count = "twice" if times == 2 else f"{times} times"
            raise UsageError(f"{parameter.opts[0]} is given {count}; it takes one value{more}")


def _is_path(text: str) -> bool:
    """Says whether a text names a file; a word that happens to be the name of one, without an end, is a word."""
    try:
        return Path(text).suffix != "" and not any(map(str.isspace, text)) and Path(text).is_file()
    except (OSError, ValueError):  # A text may be too long for a name, or have a null in it.
        return False
