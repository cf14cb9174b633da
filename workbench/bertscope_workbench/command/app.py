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
from bertscope_workbench.command.help import help_text, section, short
from bertscope_workbench.command.views.output import Failure, UsageError, print_failure
from bertscope_workbench.command.views.wording import filled, in_options

INTERRUPTED = 130
GROUPS: Mapping[str, tuple[str, ...]] = {
    "Ask a model": ("fill", "score", "facts", "answer", "classify", "tag", "predict", "embed"),
    "Look inside": (
        *("attention", "relations", "attribute", "lens", "states", "geometry", "cka"),
        *("find", "contacts", "align", "retrieve"),
    ),
    "Change it": ("trace", "sweep", "rank"),
    "Train on its states": ("probe", "apply-probe", "structural-probe", "code-length", "erase", "codes"),
    "Compress and measure": ("prune", "compress", "distill", "benchmark"),
    "Redo papers": ("primer", "study", "cite"),
    "Serve and operate": ("serve", "demo", "explore", "models", "health", "token", "cache", "mcp"),
}
"""The commands as the help lists them."""
SOUGHT: Mapping[str, str] = {
    "attention": "head heads",
    "attribute": "explain importance saliency shap",
    "benchmark": "compare speed",
    "cka": "similarity",
    "compress": "quantise quantize",
    "embed": "embeddings similarity vectors",
    "facts": "knowledge lama",
    "fill": "cloze mask",
    "find": "search",
    "explore": "page ui",
    "lens": "logit-lens",
    "models": "list load unload",
    "predict": "regression similarity",
    "rank": "heads importance",
    "relations": "dependencies syntax",
    "score": "compare minimal-pairs pairs perplexity ppl surprisal",
    "serve": "run server start",
    "states": "embeddings hidden-states vectors",
    "study": "agreement blimp",
    "sweep": "ablate ablation head heads knockout",
    "tag": "ner pos",
    "trace": "activation-patching patch patching",
    "answer": "qa",
}
"""Names that people look for, by the command that does it."""
LEFT_OF_COMMANDS = max(len(name) for names in GROUPS.values() for name in names) + 4
FIRST_STEPS = """
First steps:

  bertscope demo
  bertscope serve
  bertscope fill "Paris is the capital of [MASK]."
  bertscope help score"""


class FoundCommands(Mapping[str, Any]):
    """The commands of the folder, by name. A command is imported when it is taken."""

    def __init__(self) -> None:
        self.helps: dict[str, str] = {}
        """The help texts by name, in the order in which they are listed."""
        modules = {path.stem.replace("_", "-"): path for path in Path(commands.__path__[0]).glob("[a-z]*.py")}
        listed = [name for names in GROUPS.values() for name in names]
        for name in sorted(modules, key=listed.index):
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
        """Returns the command that runs, with its options, and its arguments; of "help X" that of "X --help". Raises UsageError
        for a name that there is not."""
        if args[0] == "help":
            args = [*args[1:], "--help"]
        if sought := [f"bertscope {name}" for name, names in SOUGHT.items() if args[0] in names.split()]:
            raise UsageError(f"No such command {args[0]!r}; see {' or '.join(sought)}")
        name, _, rest = super().resolve_command(ctx, args)
        return name, name and self._found[name], rest

    def get_help(self, ctx: Any) -> str:
        """Returns the help, which has the commands in groups."""
        own = help_text(self, ctx, {}, path=ctx.command_path, every=True).replace("[OPTIONS]", "[OPTIONS] COMMAND ...", 1)
        groups = (
            section(title, [(name, short(self._found.helps[name])) for name in names], left=LEFT_OF_COMMANDS)
            for title, names in GROUPS.items()
        )
        usage, _, options = own.partition("\n\nOptions:")
        return "\n\n".join([usage, *groups, f"Options:{options}{FIRST_STEPS}"])


app = Commands(
    name="bertscope",
    cls=Found,
    add_completion=True,
    pretty_exceptions_enable=False,
    help="Asks BERT-family models what they know, which of their heads matter, and what compressing them costs.",
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
    target: Annotated[
        str | None, typer.Option("--target", metavar="HOST:PORT,...", help="The server to call, as after the command.")
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option("--token-file", metavar="FILE", help="File with the caller's token, as after the command.")
    ] = None,
) -> None:
    if context.invoked_subcommand is None:
        sys.stdout.write(context.get_help() + "\n")


def run(arguments: Sequence[str]) -> int:
    """Runs one command. Exit codes: 0 done, 1 failed (one line on stderr), 2 wrong use, 130 interrupted, 143 terminated."""
    before = filled.set({})
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
    finally:
        filled.reset(before)


def main() -> None:
    """Runs the command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # A character that the terminal can't show must not fail the command.
    sys.exit(run(sys.argv[1:]))


WORDS = {
    "Value error, ": "",
    "Input should be greater than or equal to": "must be at least",
    "Input should be less than or equal to": "must be at most",
    "Input should be": "must be",
}
"""Words of pydantic about a wrong value, and ours."""


def _usage_message(error: Exception) -> str:
    message: str = getattr(error, "format_message", error.__str__)()
    if isinstance(error, typer.BadParameter) and error.message:  # one that is missing has none
        parameter: Any = error.param
        name = (
            ""
            if parameter is None
            else f"{parameter.opts[0] if parameter.param_type_name == 'option' else parameter.metavar}: "
        )
        message = name + str(error.message)
        for said, words in WORDS.items():
            message = message.replace(said, words)
    context = getattr(error, "ctx", None)
    hint = f" (try: {context.command_path} --help)" if context else ""
    return f"{message if message.endswith('...') else message.removesuffix('.')}{hint}"
