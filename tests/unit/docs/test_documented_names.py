"""Names on the pages exist: settings, metrics, commands with their flags, also where no test can run them."""

import ast
import inspect
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from bertscope_service import cache_command
from bertscope_service.rpc.status import CODES
from bertscope_service.settings import Settings
from bertscope_workbench.command.app import app
from bertscope_workbench.command.checked_commands import Modes

from tests.support.metric_names import METRIC_NAMES
from tools.protos.reasons import errors_page
from tools.protos.reasons import reasons as listed_reasons

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "deploy").rglob("*.md"))]
COMMAND: Any = typer.main.get_command(app)
SETTINGS = {"--" + name.replace("_", "-") for name in Settings.model_fields}


def lines() -> Iterator[tuple[str, str]]:
    """Commands in blocks, indented or fenced, and the page they are on; and the examples of helps."""
    for name, command in COMMAND.commands.items():
        for each in (command, *getattr(command, "commands", {}).values()):
            for line in re.findall(r"^  (bertscope [a-z].*)$", inspect.cleandoc(each.help or ""), re.MULTILINE):
                yield f"help {name}", line
    for page in PAGES:
        text = page.read_text(encoding="utf-8").replace("\\\n", "")
        blocks = re.findall(r"^```\w*\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
        blocks += re.findall(r"^    (.*\n)", text, re.MULTILINE)
        for line in re.findall(r"^(?:\$ )?(bertscope [a-z].*)$", "".join(blocks), re.MULTILINE):
            yield str(page.relative_to(ROOT)), line


def flags(words: list[str]) -> tuple[set[str], set[str]]:
    """The flags that a command line uses, and those that its command has."""
    used = {word.partition("=")[0] for word in words if word.startswith("--")}
    if words[1] == "serve":
        return used, SETTINGS
    if words[1] == "cache":
        return used, set(re.findall(r'"(--[a-z-]+)"', inspect.getsource(cache_command)))
    command = COMMAND
    for word in words[1:]:
        if hasattr(command, "commands"):
            first = next(iter(command.commands.values())) if isinstance(command, Modes) else None
            command = command.commands.get(word) or first
    return used, {name for parameter in command.params for name in parameter.opts}


def test_commands_and_their_flags_exist() -> None:
    for page, line in lines():
        used, known = flags(shlex.split(line, comments=True))
        assert used <= known, (page, line)


def test_every_setting_is_on_the_page_about_settings() -> None:
    text = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`--[^|]*) \|", text, re.MULTILINE)
    listed = set(re.findall(r"--[a-z-]+", " ".join(rows)))
    assert sorted(SETTINGS - listed) == sorted(listed - SETTINGS) == []


def metrics(page: Path) -> set[str]:
    """The metrics that a page names; names with a colon are those of recording rules."""
    named = re.findall(
        r"(?<![\w:])bertscope_(?!service|workbench|grpc_service_config)[a-z_]+(?![a-z_:])", page.read_text(encoding="utf-8")
    )
    return {re.sub(r"_(sum|count|bucket)$", "", name) for name in named}


def test_metrics_are_on_the_page_about_watching() -> None:
    """A server's test compares that page with what it exports."""
    for page in PAGES:
        assert metrics(page) <= METRIC_NAMES, page


SOURCES = [ast.parse(path.read_text(encoding="utf-8")) for path in sorted((ROOT / "service").rglob("*.py"))]
REASON = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)*")
TO_NO_CALLER = {"FILE_UNREADABLE", "GRPC_ENDED", "TRACING_NOT_INSTALLED"}
"""Reasons for which a server does not start, or ends."""


def texts(node: ast.AST) -> Iterator[str]:
    """The words that stand in a piece of code, as they are, that may be reasons."""
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str) and REASON.fullmatch(part.value):
            yield part.value


def reasons() -> Iterator[tuple[str, str]]:
    """What the service gives its errors as their reason where they are made, each behind its status."""
    codes = {error.__name__: code.name for error, code in CODES.items()}
    for call in (node for source in SOURCES for node in ast.walk(source) if isinstance(node, ast.Call)):
        name = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
        if name in codes:
            position = 2 if name == "InvalidArgument" else 1
            for given in (*call.args[position : position + 1], *(one.value for one in call.keywords if one.arg == "reason")):
                if not isinstance(given, ast.JoinedStr):
                    yield from ((codes[name], text) for text in texts(given))


LISTED = [(reason.status, reason.name) for reason in listed_reasons()]


@pytest.mark.slow
def test_every_reason_is_explained() -> None:
    given = {(status, name) for status, name in reasons() if name not in TO_NO_CALLER}
    assert len(given) > 100
    lines = sorted(f"{status} | {name} | when | what to do" for status, name in given - set(LISTED))
    assert lines == [], "add these lines to protos/reasons.txt, then `make protos`"


@pytest.mark.slow
def test_every_explained_reason_is_given() -> None:
    client = [ast.parse(path.read_text(encoding="utf-8")) for path in sorted((ROOT / "client" / "bertscope").rglob("*.py"))]
    given = {"CLIENT": {text for source in client for text in texts(source)}}
    written = {text for source in SOURCES for text in texts(source)}
    assert len(set(LISTED)) == len(LISTED)
    assert [(status, name) for status, name in LISTED if name not in given.get(status, written)] == []


def test_the_page_about_errors_is_made_from_the_reasons() -> None:
    assert errors_page() == (ROOT / "docs" / "errors.md").read_text(encoding="utf-8"), "run `make protos`"
