"""Commands are found in their folder, listed without an import, and imported when they run."""

import inspect
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from bertscope_workbench.command import commands
from bertscope_workbench.command.app import FIRST, app

GROUP = typer.main.get_command(app)
NAMES = sorted(path.stem.replace("_", "-") for path in Path(commands.__path__[0]).glob("[a-z]*.py"))


def test_each_module_of_the_folder_is_a_command():
    assert sorted(GROUP.commands) == NAMES
    assert GROUP.list_commands(None) == [*FIRST, *(name for name in NAMES if name not in FIRST)]


def test_a_command_is_listed_as_it_is():
    for name in NAMES:
        listed, real = GROUP.get_command(None, name), GROUP.commands[name]
        assert listed.name == real.name == name
        assert listed.help == inspect.cleandoc(real.help)
        assert listed.hidden == real.hidden


def test_an_unknown_command_is_none():
    assert GROUP.get_command(None, "fil") is None
    assert "fil" not in GROUP.commands


def imported_by(arguments: list[str]) -> list[str]:
    """Returns the modules that a process has imported once it ran a command."""
    code = (
        f"import sys; from bertscope_workbench.command.app import run; run({arguments}); print(*sys.modules, file=sys.stderr)"
    )
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stderr.split()


@pytest.mark.parametrize(
    ("arguments", "converted"),
    [(["fill", "--model", "m", "a", "b", "--json", "--columns", "text=a"], False), (["fill", "a", "--top-k", "0"], True)],
)
def test_only_values_that_are_no_texts_are_converted(arguments, converted):
    """Typer converts values by pydantic, whose import takes as long as all else that a short command does."""
    assert ("pydantic" in imported_by(arguments)) is converted


def test_only_the_command_that_runs_is_imported():
    for arguments, imported in ((["--help"], set()), (["token", "--help"], {"token"})):
        modules = imported_by(arguments)
        prefix = f"{commands.__name__}."
        assert {name.removeprefix(prefix) for name in modules if name.startswith(prefix)} == imported
        assert imported or not {"grpc", "numpy", "pydantic"} & {*modules}
