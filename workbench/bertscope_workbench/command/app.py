"""Defines the command line: its commands, and how a failure becomes one line and an exit code.

Each module of the folder commands/ is a command: a function of the module's name, or an `app` of several. The docstring of the
module is the command's help, so that only the command that runs is imported.
"""

import inspect
import io
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from bertscope import __version__
from typer.core import TyperCommand

from bertscope_workbench.command import commands
from bertscope_workbench.command.checked_commands import Commands, Group
from bertscope_workbench.command.views.output import Failure, UsageError, print_failure
from bertscope_workbench.command.views.wording import in_options

INTERRUPTED = 130
FIRST = ("serve", "demo", "explore", "models", "fill")
"""Commands that the help names before the others."""


class FoundCommands(Mapping[str, Any]):
    """The commands of the folder, by name. A command is imported when it is taken."""

    def __init__(self) -> None:
        self.helps: dict[str, str] = {}
        """The help texts by name, in the order in which they are listed."""
        modules = {path.stem.replace("_", "-"): path for path in Path(commands.__path__[0]).glob("[a-z]*.py")}
        for name in sorted(modules, key=lambda name: (FIRST.index(name) if name in FIRST else len(FIRST), name)):
            self.helps[name] = inspect.cleandoc(modules[name].read_text(encoding="utf-8").split('"""', 2)[1])

    def __getitem__(self, name: str) -> Any:
        if name not in self.helps:
            raise KeyError(name)
        function = name.replace("-", "_")
        module = import_module(f"{commands.__name__}.{function}")
        app = getattr(module, "app", None)
        if app is None:
            app = Commands()
            app.command(name, help=module.__doc__, **getattr(module, "SETTINGS", {}))(getattr(module, function))
        command = typer.main.get_command(app)
        command.name = name
        return command

    def __iter__(self) -> Iterator[str]:
        return iter(self.helps)

    def __len__(self) -> int:
        return len(self.helps)


class Found(Group):
    """The group of these commands."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self._found = FoundCommands()
        self.commands = self._found  # type: ignore[assignment]  # nothing is added to it

    def list_commands(self, ctx: Any) -> list[str]:
        """Returns the names in the order of the help."""
        return [*self._found]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Returns a command with its name and help alone, for a list of commands; None if there is none."""
        helps = self._found.helps
        return TyperCommand(cmd_name, help=helps[cmd_name]) if cmd_name in helps else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Returns the command that runs, with its options, and its arguments."""
        name, _, rest = super().resolve_command(ctx, args)
        return name, name and self._found[name], rest


app = Commands(
    name="bertscope",
    cls=Found,
    add_completion=True,
    pretty_exceptions_enable=False,
    help="Asks BERT-family models questions.",
)


def _print_version(asked: bool) -> None:
    if asked:
        sys.stdout.write(f"bertscope {__version__}\n")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def bertscope_command(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Asks BERT-family models what they know, which of their heads matter, and what compressing them costs."""
    if context.invoked_subcommand is None:
        sys.stdout.write(context.get_help() + "\n")


def run(arguments: Sequence[str]) -> int:
    """Runs one command. Exit codes: 0 done, 1 failed (one line on stderr), 2 wrong use, 130 interrupted, 143 terminated."""
    try:
        code: int = app(list(arguments), prog_name="bertscope", standalone_mode=False) or 0
        if code == INTERRUPTED:  # Typer turns Ctrl-C into an exit code, and prints nothing.
            raise KeyboardInterrupt
        return code
    except UsageError as error:
        print_failure(f"bertscope: {in_options(_usage_message(error))}")
        return 2
    except (KeyboardInterrupt, typer.Abort):
        print_failure("bertscope: interrupted")
        return INTERRUPTED
    except Exception as error:
        from bertscope.errors import BertscopeError  # Most of its time is that of grpc, which --help does without.

        if not isinstance(error, (BertscopeError, Failure)):
            raise
        print_failure(f"bertscope: {in_options(str(error))}")
        return error.exit_code if isinstance(error, Failure) else 1


def main() -> None:
    """Runs the command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # A character that the terminal can't show must not fail the command.
    sys.exit(run(sys.argv[1:]))


def _usage_message(error: Exception) -> str:
    message = getattr(error, "format_message", error.__str__)()
    context = getattr(error, "ctx", None)
    hint = f" (try: {context.command_path} --help)" if context else ""
    return f"{message if message.endswith('...') else message.removesuffix('.')}{hint}"
